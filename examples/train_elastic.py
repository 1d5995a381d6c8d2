"""Elastic training with hvd.torch: the network of train_torch.py learns, and goes on when ranks are
lost or join.

    hvdrun -n 4 --min-np=2 python3 train_elastic.py
    hvdrun -n 4 --min-np=2 --max-restarts=3 python3 train_elastic.py

Kill a rank meanwhile. The batch is that of all ranks together, and it computes in float64:
whatever ranks are lost, it learns the same up to rounding."""
import argparse
import os

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
from train_torch import Net, evaluate, load_digits

import hvd.torch as hvd

HERE = os.path.dirname(os.path.abspath(__file__))


def load_data(path):
    learn, test = load_digits(path)
    for each in (learn, test):
        pictures, digits = each.tensors
        each.tensors = (pictures.double(), digits)
    return learn, test


@hvd.elastic.run
def train(state, learn, test, options):
    """All ranks call it again in each epoch of the job, that is, whenever they have changed."""
    batches = hvd.elastic.ConstantBatch(state.sampler, options.batch, options.largest)
    loader = DataLoader(learn, batch_sampler=batches)
    state.optimizer.set_backward_passes_per_step(batches.passes)
    if hvd.rank() == 0:
        done = state.sampler.processed_num
        print("%d ranks begin epoch %d at %d" % (hvd.size(), state.epoch, done), flush=True)
    while state.epoch <= options.epochs:
        for i, (pictures, digits) in enumerate(loader):
            loss = F.cross_entropy(state.model(pictures), digits)
            (loss * batches.weight(i)).backward()
            if not batches.ends_step(i):
                continue
            state.optimizer.step()
            state.optimizer.zero_grad()
            batches.record(i)
            if i // batches.passes % options.commit == 0:
                state.commit()
        state.epoch += 1
        state.sampler.set_epoch(state.epoch)
        state.commit()
    return evaluate(state.model, test)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch", type=int, default=60, help="of all ranks together")
    parser.add_argument("--largest", type=int, help="samples that a rank computes at once")
    parser.add_argument("--commit", type=int, default=5, help="batches between commits")
    parser.add_argument("--data", default=os.path.join(HERE, "digits.csv"))
    parser.add_argument("--checkpoint", help="rank 0 writes the trained model here")
    options = parser.parse_args()

    hvd.init()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    learn, test = load_data(options.data)
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
