"""A script in the form that Horovod's documentation gives, with the digits in place of MNIST. It
knows only Horovod."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
import torch.utils.data.distributed

import horovod.torch as hvd
from horovod.common.exceptions import HorovodInternalError  # noqa: F401

hvd.init()
torch.manual_seed(42)
torch.set_num_threads(1)

with open(sys.argv[1]) as file:
    rows = torch.tensor([[float(word) for word in line.split(",")] for line in file])
train_dataset = torch.utils.data.TensorDataset(rows[:1500, :64] / 16, rows[:1500, 64].long())
test_data, test_target = rows[1500:, :64] / 16, rows[1500:, 64].long()
train_sampler = torch.utils.data.distributed.DistributedSampler(
    train_dataset, num_replicas=hvd.size(), rank=hvd.rank()
)
train_loader = torch.utils.data.DataLoader(
    train_dataset, batch_size=32, sampler=train_sampler, num_workers=1
)

model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
optimizer = optim.SGD(model.parameters(), lr=0.05 * hvd.size(), momentum=0.5)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
compression = hvd.Compression.fp16
optimizer = hvd.DistributedOptimizer(
    optimizer,
    named_parameters=model.named_parameters(),
    compression=compression,
    op=hvd.Average,
    gradient_predivide_factor=1.0,
)


def metric_average(val, name):
    return hvd.allreduce(torch.tensor(val), name=name).item()


for epoch in range(6):
    model.train()
    train_sampler.set_epoch(epoch)
    for data, target in train_loader:
        optimizer.zero_grad()
        F.cross_entropy(model(data), target).backward()
        optimizer.step()
model.eval()
accuracy = (model(test_data).argmax(1) == test_target).float().mean().item()
accuracy = metric_average(accuracy, "avg_accuracy")
if hvd.rank() == 0:
    print("ranks=%d accuracy=%.3f" % (hvd.size(), accuracy))
