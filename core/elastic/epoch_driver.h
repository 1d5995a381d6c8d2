/* epoch_driver.h: decides the epochs of an elastic job.
 *
 * A slot is the place of one process in the job: its rank when the job was started, or a place that is empty
 * then and into which the job may grow. An epoch is a set of slots that work together, its members, with a
 * number. Epoch 0 is the job as it was started. The next epoch begins when each member that is left has asked
 * for it, and takes in the newcomers that have asked as well: processes that were started later, in slots
 * that are empty or whose process has ended. Members keep their order; newcomers get the ranks after them.
 * With a limit, those that find no room in the epoch are spares: they wait on.
 *
 * elastic/ promises its host, which is hvdrun, that every process gets the same answer: the driver is a state
 * machine without sockets or clocks. The host tells it what processes do, and sends them what it decides. */
#ifndef ELASTIC_EPOCH_DRIVER_H
#define ELASTIC_EPOCH_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

struct epoch_driver;

/* The processes of the first [members] of [slots] are epoch 0, and the other slots are empty. Fewer than
 * [fewest] processes make no epoch. NULL if there is not enough memory. */
struct epoch_driver *epoch_driver_create(int slots, int members, int fewest);
void epoch_driver_destroy(struct epoch_driver *driver);

/* No epoch is to have more than [most] members, which is less than the slots. */
void epoch_driver_limit(struct epoch_driver *driver, int most);

/* The process of [slot] asks for the next epoch, and waits; it has given up waiting; it has ended. */
void epoch_driver_ask(struct epoch_driver *driver, int slot);
void epoch_driver_give_up(struct epoch_driver *driver, int slot);
void epoch_driver_lose(struct epoch_driver *driver, int slot);

/* The host starts a newcomer in [slot], which is empty, or whose process has ended. It counts as left from
 * now on. */
void epoch_driver_expect(struct epoch_driver *driver, int slot);

/* The process of [slot] has no place in the next epoch, or has one after all. It waits there like a spare
 * until the host ends it, and counts as left no more. */
void epoch_driver_dismiss(struct epoch_driver *driver, int slot, bool leaves);

/* More newcomers may come than are expected: too few that are left wait for them, and are not refused. */
void epoch_driver_hope(struct epoch_driver *driver, bool hopes);

/* The job has done its work: newcomers wait in vain from now on, until the host ends them. */
void epoch_driver_finish(struct epoch_driver *driver);

/* The process of [slot] has sent a beat: from now on it sends one in each interval, until it sends none
 * anywhere: it says so, asks, or ends. Another interval has passed: is a process silent that should have sent
 * several? */
void epoch_driver_hear(struct epoch_driver *driver, int slot);
void epoch_driver_hush(struct epoch_driver *driver, int slot);
void epoch_driver_count_beats(struct epoch_driver *driver);
bool epoch_driver_is_silent(const struct epoch_driver *driver, int slot);
/* Does any process send beats? */
bool epoch_driver_has_beats(const struct epoch_driver *driver);

/* How many processes are left, newcomers too, and how many of them are members; and is [slot] left? */
int epoch_driver_left(const struct epoch_driver *driver);
bool epoch_driver_has(const struct epoch_driver *driver, int slot);
/* Has it asked, and waits? */
bool epoch_driver_waits(const struct epoch_driver *driver, int slot);
/* Is [slot] that of a newcomer that has not asked yet? */
bool epoch_driver_is_on_its_way(const struct epoch_driver *driver, int slot);
int epoch_driver_members(const struct epoch_driver *driver);

/* How many that have a place in the next epoch wait for it, and how many members wait? */
int epoch_driver_waiting(const struct epoch_driver *driver);
int epoch_driver_waiting_members(const struct epoch_driver *driver);

/* Do newcomers for whom there is room wait for the members to ask, or do members leave when all have asked?
 */
bool epoch_driver_has_news(const struct epoch_driver *driver);

enum epoch_decision {
    EPOCH_WAITS,
    EPOCH_BEGINS,  /* the next epoch: all that waited are in it, or are spares, which wait on */
    EPOCH_REFUSES, /* too few are left for another epoch; said once for each process that waits */
    EPOCH_IS_LAST  /* all members have ended, and with them the job: the spares have waited in vain */
};

/* What follows from the events so far. All but WAITS end the waiting, but of the spares of an epoch. */
enum epoch_decision epoch_driver_decide(struct epoch_driver *driver);

/* The epoch that began last: its number, its size, the rank of [slot] in it, -1 if it is no member, and the
 * slot that began it as [rank]. */
uint32_t epoch_driver_epoch(const struct epoch_driver *driver);
int epoch_driver_size(const struct epoch_driver *driver);
int epoch_driver_rank(const struct epoch_driver *driver, int slot);
int epoch_driver_slot(const struct epoch_driver *driver, int rank);

#endif
