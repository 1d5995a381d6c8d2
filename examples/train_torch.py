"""Data-parallel training with hvd.torch: a small convolutional network learns to read handwritten
digits.

    srun -N2 -n4 --hvd-fusion=64M python3 train_torch.py
    hvdrun -n 2 python3 train_torch.py --epochs=5

The batch size is that of the whole job, so that any number of ranks learns the same."""
import argparse
import os
import time

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import hvd.torch as hvd

HERE = os.path.dirname(os.path.abspath(__file__))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(1, 8, 3, padding=1)
        self.second = torch.nn.Conv2d(8, 16, 3, padding=1)
        self.last = torch.nn.Linear(16 * 2 * 2, 10)

    def forward(self, pictures):
        x = F.max_pool2d(F.relu(self.first(pictures)), 2)
        x = F.max_pool2d(F.relu(self.second(x)), 2)
        return self.last(x.flatten(1))


def load_digits(path):
    """Pictures of 8x8 points and the digits they show; each fifth is held out for the test."""
    with open(path) as file:
        rows = torch.tensor([[float(word) for word in line.split(",")] for line in file])
    pictures, digits = rows[:, :64].reshape(-1, 1, 8, 8) / 16, rows[:, 64].long()
    held_out = torch.arange(len(rows)) % 5 == 4
    learn = TensorDataset(pictures[~held_out], digits[~held_out])
    return learn, TensorDataset(pictures[held_out], digits[held_out])


def evaluate(model, data):
    """Loss and accuracy over the test pictures of all ranks."""
    model.eval()
    pictures, digits = data.tensors
    mine = slice(hvd.rank(), None, hvd.size())
    with torch.no_grad():
        answers = model(pictures[mine])
        loss = F.cross_entropy(answers, digits[mine], reduction="sum")
        right = (answers.argmax(1) == digits[mine]).sum()
    totals = hvd.allreduce(torch.stack([loss, right.float()]), op=hvd.Sum, name="evaluation")
    return totals[0].item() / len(digits), totals[1].item() / len(digits)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch", type=int, default=60, help="of all ranks together")
    parser.add_argument("--data", default=os.path.join(HERE, "digits.csv"))
    parser.add_argument("--checkpoint", help="rank 0 writes the trained model here")
    options = parser.parse_args()

    hvd.init()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    learn, test = load_digits(options.data)
    sampler = DistributedSampler(learn, num_replicas=hvd.size(), rank=hvd.rank(), seed=1)
    loader = DataLoader(learn, batch_size=max(options.batch // hvd.size(), 1), sampler=sampler)

    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    begin = time.monotonic()
    for epoch in range(1, options.epochs + 1):
        model.train()
        sampler.set_epoch(epoch)
        for pictures, digits in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(pictures), digits).backward()
            optimizer.step()
        loss, accuracy = evaluate(model, test)
        if hvd.rank() == 0:
            print("epoch %d loss=%.4f accuracy=%.4f" % (epoch, loss, accuracy), flush=True)
    if hvd.rank() == 0:
        if options.checkpoint:
            torch.save(model.state_dict(), options.checkpoint)
        seconds = time.monotonic() - begin
        line = "done loss=%.4f accuracy=%.4f ranks=%d seconds=%.1f"
        print(line % (loss, accuracy, hvd.size(), seconds), flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
