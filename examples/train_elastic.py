"""Elastic training with hvd.torch: the network of train_torch.py learns, and goes on when ranks are
lost or join.

    hvdrun -n 4 --min-np=2 python3 train_elastic.py
    hvdrun -n 4 --min-np=2 --max-restarts=3 python3 train_elastic.py

Kill a rank meanwhile. The batch is that of the whole job, and it computes in float64: whatever
ranks are lost, it learns the same up to rounding."""
import argparse
import os

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Subset
from train_torch import Net, evaluate, load_digits

import hvd.torch as hvd

HERE = os.path.dirname(os.path.abspath(__file__))


def load_data(path, batch):
    """As many pictures as make whole batches, so that none comes twice, and those of the test."""
    learn, test = load_digits(path)
    for each in (learn, test):
        pictures, digits = each.tensors
        each.tensors = (pictures.double(), digits)
    return Subset(learn, range(len(learn) // batch * batch)), test


def learn_batch(state, pictures, digits):
    state.optimizer.zero_grad()
    F.cross_entropy(state.model(pictures), digits).backward()
    state.optimizer.step()


@hvd.elastic.run
def train(state, learn, test, options):
    """All ranks call it again in each epoch of the job, that is, whenever they have changed."""
    if options.batch % hvd.size() != 0:
        raise ValueError("--batch=%d: %d ranks cannot share it" % (options.batch, hvd.size()))
    share = options.batch // hvd.size()
    loader = DataLoader(learn, batch_size=share, sampler=state.sampler)
    if hvd.rank() == 0:
        done = state.sampler.processed_num
        print("%d ranks begin epoch %d at %d" % (hvd.size(), state.epoch, done), flush=True)
    while state.epoch <= options.epochs:
        for i, (pictures, digits) in enumerate(loader):
            learn_batch(state, pictures, digits)
            state.sampler.record_batch(i, share)
            if i % options.commit == 0:
                state.commit()
        state.epoch += 1
        state.sampler.set_epoch(state.epoch)
        state.commit()
    return evaluate(state.model, test)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch", type=int, default=60, help="of all ranks together")
    parser.add_argument("--commit", type=int, default=5, help="batches between commits")
    parser.add_argument("--data", default=os.path.join(HERE, "digits.csv"))
    parser.add_argument("--checkpoint", help="rank 0 writes the trained model here")
    options = parser.parse_args()

    hvd.init()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    learn, test = load_data(options.data, options.batch)
    model = Net().double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    sampler = hvd.elastic.ElasticSampler(learn, seed=1)
    state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, epoch=1)

    loss, accuracy = train(state, learn, test, options)
    if hvd.rank() == 0:
        if options.checkpoint:
            torch.save(model.state_dict(), options.checkpoint)
        line = "done loss=%.4f accuracy=%.4f ranks=%d"
        print(line % (loss, accuracy, hvd.size()), flush=True)


if __name__ == "__main__":
    main()
