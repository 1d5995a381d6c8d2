"""A step in which a model is trained by hvd.torch.DistributedOptimizer. The loss is linear, with
small whole numbers as coefficients, so that all gradients are known exactly."""
import copy
import pickle

import numpy as np

from random_programs import elements, reference
from random_programs.checks import compare
from random_programs.layouts import to_numpy
from random_programs.steps import draw_set

OPTIMIZERS = (
    ("SGD", {"lr": 0.5}),
    ("SGD", {"lr": 0.25, "momentum": 0.5}),
    ("Adam", {"lr": 0.125}),
    ("AdamW", {"lr": 0.125, "amsgrad": True}),
    ("RMSprop", {"lr": 0.125, "momentum": 0.5}),
    ("Adagrad", {"lr": 0.125}),
)
_LAYOUTS = ("plain", "plain", "plain", "turned", "shared")
# What a program does with the gradients that a step leaves behind; the next one finds them so.
_LEFT = ("nothing", "nothing", "assign", "replace data", "set", "share")


class Parameter:
    """One parameter of the model as it is drawn."""

    def __init__(self, rng, number, types):
        self.name = "layer.%d" % number
        self.dtype = rng.choice(types)
        self.shape = rng.choice(((), (0,), (1,), (5,), (3, 4), (2, 3, 4, 5), (700,), (64, 65)))
        odd = ("channels_last",) * 3 if len(self.shape) == 4 else ()
        self.layout = rng.choice(_LAYOUTS + odd)

    def laid(self, torch, values):
        """A tensor with these elements in this parameter's layout."""
        tensor = torch.from_numpy(np.array(values)).to(getattr(torch, self.dtype))
        if self.layout == "turned":
            order = tuple(range(tensor.dim()))[::-1]
            return tensor.permute(order).contiguous().permute(order)
        if self.layout == "channels_last":
            return tensor.contiguous(memory_format=torch.channels_last)
        return tensor.share_memory_() if self.layout == "shared" else tensor

    def values(self, *seed):
        return elements.values("small", self.dtype, self.shape, False, *seed, self.name)

    def __str__(self):
        return "%s%s %s" % (self.dtype, list(self.shape), self.layout)


class Settings:
    """The arguments of DistributedOptimizer, drawn together with what they forbid."""

    def __init__(self, rng, members):
        self.compression = rng.choice(("none", "none", "none", "fp16", "bf16"))
        halves = members in (1, 2, 4)
        self.op = rng.choice(("average", "average", "sum")) if self.exact() or halves else "sum"
        self.passes = rng.choice((1, 1, 1, 2, 3))
        self.predivide = rng.choice((1.0, 1.0, 2.0)) if self.op == "average" else 1.0
        self.groups = rng.choice((None, None, 1, 2, "lists"))
        self.named = rng.random() < 0.8
        self.in_window = rng.random() < 0.7

    def exact(self):
        return self.compression == "none"

    def arguments(self, hvd, parameters, named, process_set):
        groups = self.groups
        if groups == "lists":
            groups = [parameters[::2], parameters[1::2]]
            groups = [each for each in groups if each]
        return {
            "named_parameters": named if self.named else None,
            "compression": getattr(hvd.Compression, self.compression),
            "op": hvd.Average if self.op == "average" else hvd.Sum,
            "backward_passes_per_step": self.passes,
            "gradient_predivide_factor": self.predivide,
            "groups": groups,
            "gradients_in_window": self.in_window,
            "process_set": process_set,
        }

    def __str__(self):
        return ", ".join("%s=%s" % each for each in sorted(vars(self).items()))


class Epoch:
    """What happens in one step of training."""

    def __init__(self, rng, settings, number, frozen):
        zeros = ("none", "none", "zero") + (("keep",) if settings.exact() and number else ())
        self.zero = rng.choice(zeros)
        self.middle = rng.choice(("nothing",) * 3 + ("halve", "assign halves"))
        self.left = rng.choice(_LEFT)
        self.closure = rng.random() < 0.2
        self.state = rng.choice(("nothing",) * 5 + ("load", "broadcast", "copy", "pickle"))
        self.root = rng.random()
        self.frozen = frozen

    def __str__(self):
        words = (self.zero, self.middle, self.left, "closure" * self.closure, self.state)
        return "/".join(words + tuple("frozen %d" % each for each in self.frozen))


class Training:
    """Some steps of training, after each of which the parameters are those of a plain optimizer."""

    def __init__(self, rng, plan):
        self.seed, self.number = plan.seed, rng.randrange(1 << 30)
        self.set = draw_set(rng, plan)
        self.members = plan.sets[self.set]
        types = rng.choice((("float32",), ("float32", "float64"), ("float32",) + elements.NARROW))
        self.parameters = [Parameter(rng, i, types) for i in range(rng.randint(1, 6))]
        halves = any(each.dtype in elements.NARROW for each in self.parameters)
        numbers = range(len(self.parameters))
        self.kind, self.options = rng.choice(OPTIMIZERS[:1] if halves else OPTIMIZERS)
        self.settings = Settings(rng, len(self.members))
        if halves:
            self.settings.compression = "none"
        frozen = rng.choice((0, 0, 0, 0.5))
        self.epochs = [
            Epoch(rng, self.settings, i, [k for k in numbers if rng.random() < frozen])
            for i in range(rng.randint(1, 5))
        ]
        self.parts = rng.choice((1, 1, 1, 2)) if len(self.parameters) > 1 else 1
        # Adagrad has no state for parameters that come later
        single = self.parts == 1 and len(self.parameters) > 1 and self.kind != "Adagrad"
        self.added = single and rng.random() < 0.15
        self.scheduler = rng.choice((None, "plain", "wrapped")) if self.parts == 1 else None
        self.settings.named |= self.parts > 1
        self.unused = rng.choice((0, 0, 0.3))
        self.root = rng.choice(self.members)

    def run(self, world):
        if world.is_member(self.set) and "hvd.torch" in world.faces:
            Trained(self, world).run()

    def coefficients(self, epoch, backward, rank):
        """What the loss of a rank multiplies each parameter with; None where it does not reach
        it."""
        rng = elements.stream(self.seed, self.number, epoch, backward, rank)
        return [
            None if rng.random() < self.unused else each.values(self.number, epoch, backward, rank)
            for each in self.parameters
        ]

    def __str__(self):
        return "training of %s by %d %s %s%s among %s: %s; %s; scheduler %s, unused %s" % (
            ", ".join(map(str, self.parameters)), self.parts, self.kind, self.options,
            " and a group added" * self.added, self.members, self.settings,
            " ".join(map(str, self.epochs)), self.scheduler, self.unused,
        )  # fmt: skip


class Trained:
    """A training as it runs on one rank, beside the plain optimizer that all ranks must equal."""

    def __init__(self, training, world):
        import torch

        self.torch, self.training, self.world = torch, training, world
        self.hvd = world.faces["hvd.torch"].hvd
        self.process_set = world.faces["hvd.torch"].set_argument(world, training.set)
        self.own = self._make(world.rank)
        self.plain = self._make(training.root)
        self.plain_optimizers = [made for made, _ in self._optimizers(self.plain)]
        # of each member: the gradients as it has them
        self.gradients = {each: [None] * len(self.own) for each in training.members}

    def _make(self, rank):
        return [
            self.torch.nn.Parameter(each.laid(self.torch, each.values(rank, self.training.number)))
            for each in self.training.parameters
        ]

    def _optimizers(self, parameters):
        """The optimizers of the model, each with its parameters; without those added later."""
        training, made = self.training, []
        for i in range(training.parts):
            own = parameters[i :: training.parts]
            if training.added:
                del own[-1]
            optimizer = getattr(self.torch.optim, training.kind)(own, **training.options)
            made.append((optimizer, own))
        return made

    def run(self):
        training, hvd = self.training, self.hvd
        names = ["%d.%s" % (training.number, each.name) for each in training.parameters]
        named = list(zip(names, self.own))
        self._freeze(training.epochs[0])
        optimizers, wrapped = [], []
        for optimizer, own in self._optimizers(self.own):
            arguments = training.settings.arguments(hvd, own, named, self.process_set)
            optimizers.append(optimizer)
            wrapped.append(hvd.DistributedOptimizer(optimizer, **arguments))
        if training.added:
            wrapped[0].add_param_group({"params": self.own[-1:]})
            self.plain_optimizers[0].add_param_group({"params": self.plain[-1:]})
        hvd.broadcast_parameters(named, training.root, self.process_set)
        schedulers = []
        if training.scheduler is not None:
            of = optimizers if training.scheduler == "plain" else wrapped
            make = self.torch.optim.lr_scheduler.StepLR
            schedulers = [make(each[0], 1, gamma=0.5) for each in (of, self.plain_optimizers)]
        for i, epoch in enumerate(training.epochs):
            self._freeze(epoch)
            self._train(wrapped, i, epoch)
            for each in schedulers:
                each.step()
            self._compare(i)
            self._leave(epoch)
            for each in wrapped:
                self._move_state(each, epoch)
            if not schedulers and epoch.state in ("copy", "pickle"):
                self._replace(wrapped, epoch)

    def _freeze(self, epoch):
        for i, each in enumerate(self.own):
            each.requires_grad_(i not in epoch.frozen)

    def _backward(self, number):
        """This rank's backward passes."""
        for backward in range(self.training.settings.passes):
            wanted = self.training.coefficients(number, backward, self.world.rank)
            losses = [
                (parameter * spec.laid(self.torch, values)).sum().double()
                for parameter, spec, values in zip(self.own, self.training.parameters, wanted)
                if values is not None and parameter.requires_grad
            ]
            if losses:
                sum(losses).backward()

    def _train(self, wrapped, number, epoch):
        if epoch.zero != "keep":
            for each in wrapped:
                each.zero_grad(set_to_none=epoch.zero == "none")
        if epoch.closure and epoch.middle == "nothing" and len(wrapped) == 1:

            def closure():
                self._backward(number)
                return self.torch.zeros(())

            wrapped[0].step(closure)
        else:
            self._backward(number)
            self._step(wrapped, epoch)
        self._train_plain(number, epoch)

    def _step(self, wrapped, epoch):
        if epoch.middle == "nothing":
            for each in wrapped:
                each.step()
            return
        for each in wrapped:
            each.synchronize()
        self._halve(epoch)
        for each in wrapped:
            with each.skip_synchronize():
                each.step()

    def _halve(self, epoch):
        for each in self.own:
            if each.grad is None:
                continue
            if epoch.middle == "halve":
                each.grad.mul_(0.5)
            else:
                each.grad = each.grad * 0.5

    # ---- the plain optimizer ----

    def _train_plain(self, number, epoch):
        for member in self.training.members:
            self._accumulate(member, number, epoch)
        for i, (spec, parameter) in enumerate(zip(self.training.parameters, self.plain)):
            gradients = [self.gradients[each][i] for each in self.training.members]
            found = gradients[0] if i in epoch.frozen else self._reduced(spec, gradients)
            if found is not None and epoch.middle != "nothing":
                found = elements.rounded(found * found.dtype.type(0.5), spec.dtype)
            for member in self.training.members:
                self.gradients[member][i] = found
            parameter.grad = None if found is None else spec.laid(self.torch, found)
        for each in self.plain_optimizers:
            each.step()

    def _accumulate(self, member, number, epoch):
        gradients = self.gradients[member]
        if epoch.zero != "keep":
            nothing = epoch.zero == "none"
            gradients[:] = [None if nothing or each is None else each * 0 for each in gradients]
        for backward in range(self.training.settings.passes):
            found = self.training.coefficients(number, backward, member)
            for i, (spec, values) in enumerate(zip(self.training.parameters, found)):
                if values is not None and i not in epoch.frozen:
                    before = 0 if gradients[i] is None else gradients[i]
                    gradients[i] = elements.rounded(values + before, spec.dtype)

    def _reduced(self, spec, gradients):
        """What all members have after the reduction; zeros count for those that have none."""
        if len(gradients) == 1:
            return gradients[0]
        zeros = np.zeros(spec.shape, elements.held_as(spec.dtype))
        given = [zeros if each is None else each for each in gradients]
        factor = self.training.settings.predivide
        return reference.reduced(self.training.settings.op, spec.dtype, given, (1 / factor, factor))

    # ---- after a step ----

    def _compare(self, number):
        tolerance = 0 if self.training.kind == "SGD" else 1e-5
        for what, own, plain in (
            ("parameters", self.own, self.plain),
            ("gradients", self._grads(self.own), self._grads(self.plain)),
        ):
            compare(
                [to_numpy(each) for each in own], [to_numpy(each) for each in plain], tolerance,
                "%s after step %d" % (what, number),
            )  # fmt: skip

    def _grads(self, parameters):
        empty = self.torch.zeros(0)
        return [empty if each.grad is None else each.grad for each in parameters]

    def _leave(self, epoch):
        """Do with the gradients what programs do between steps."""
        for each in self.own:
            if each.grad is None or epoch.left == "nothing":
                continue
            if epoch.left == "assign":
                each.grad = each.grad.clone()
            elif epoch.left == "replace data":
                each.grad.data = each.grad.data * 1
            elif epoch.left == "set":
                each.grad.set_(each.grad.detach().clone())
            else:
                each.grad.share_memory_()

    def _move_state(self, wrapped, epoch):
        if epoch.state == "load":
            wrapped.load_state_dict(copy.deepcopy(wrapped.state_dict()))
        if epoch.state == "broadcast":
            root = self.training.members[int(epoch.root * len(self.training.members))]
            self.hvd.broadcast_optimizer_state(wrapped, root, process_set=self.process_set)

    def _replace(self, wrapped, epoch):
        """Go on with a copy of the model and its optimizers."""
        things = self.own, list(wrapped)
        if epoch.state == "copy":
            self.own, wrapped[:] = copy.deepcopy(things)
        else:
            self.own, wrapped[:] = pickle.loads(pickle.dumps(things))
        for member in self.training.members:  # copies of parameters have no gradients
            self.gradients[member] = [None] * len(self.own)
