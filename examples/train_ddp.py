"""DistributedDataParallel on hvd: what differs from a script for another backend is the import and
the word "hvd".

    hvdrun -n 2 python3 train_ddp.py
    srun -N2 -n4 python3 train_ddp.py

The network, the data and the result are those of train_torch.py."""
import argparse
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

import hvd.distributed  # noqa: F401 makes the backend known
from train_torch import HERE, Net, load_digits


def evaluate(model, data):
    """Loss and accuracy over the test pictures of all ranks."""
    model.eval()
    pictures, digits = data.tensors
    mine = slice(dist.get_rank(), None, dist.get_world_size())
    with torch.no_grad():
        answers = model(pictures[mine])
        loss = F.cross_entropy(answers, digits[mine], reduction="sum")
        right = (answers.argmax(1) == digits[mine]).sum()
    totals = torch.stack([loss, right.float()])
    dist.all_reduce(totals)
    return totals[0].item() / len(digits), totals[1].item() / len(digits)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch", type=int, default=60, help="of all ranks together")
    parser.add_argument("--data", default=os.path.join(HERE, "digits.csv"))
    options = parser.parse_args()

    dist.init_process_group("hvd")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    learn, test = load_digits(options.data)
    sampler = DistributedSampler(learn, seed=1)
    loader = DataLoader(learn, batch_size=max(options.batch // size, 1), sampler=sampler)
    model = DistributedDataParallel(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    for epoch in range(1, options.epochs + 1):
        model.train()
        sampler.set_epoch(epoch)
        for pictures, digits in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(pictures), digits).backward()
            optimizer.step()
        loss, accuracy = evaluate(model.module, test)
        if rank == 0:
            print("epoch %d loss=%.4f accuracy=%.4f" % (epoch, loss, accuracy), flush=True)
    if rank == 0:
        line = "done loss=%.4f accuracy=%.4f ranks=%d"
        print(line % (loss, accuracy, size), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
