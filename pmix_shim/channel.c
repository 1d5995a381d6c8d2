/* channel.c: a queue between PMIx's thread and the main loop, with an eventfd that wakes the loop. */
#include "pmix_shim/channel.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct channel_entry {
    struct channel_entry *next;
    struct channel_message message;
};

struct channel {
    pthread_mutex_t lock; /* of first and last */
    struct channel_entry *first;
    struct channel_entry **last;
    int event_fd; /* a semaphore: its count is the number of entries */
};

int channel_create(struct channel **channelp, struct hvd_error *err)
{
    struct channel *channel = calloc(1, sizeof(*channel));
    if (channel == NULL)
        return error_set_errno(err, "cannot make a queue for PMIx");
    channel->last = &channel->first;
    channel->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
    if (channel->event_fd < 0) {
        int status = error_set_errno(err, "cannot make an eventfd");
        free(channel);
        return status;
    }
    pthread_mutex_init(&channel->lock, NULL);
    *channelp = channel;
    return HVD_OK;
}

int channel_post(struct channel *channel, const struct channel_message *message)
{
    struct channel_entry *entry = malloc(sizeof(*entry));
    if (entry == NULL)
        return -1;
    entry->next = NULL;
    entry->message = *message;
    pthread_mutex_lock(&channel->lock);
    *channel->last = entry;
    channel->last = &entry->next;
    pthread_mutex_unlock(&channel->lock);
    eventfd_write(channel->event_fd, 1);
    return 0;
}

int channel_fd(const struct channel *channel)
{
    return channel->event_fd;
}

bool channel_take(struct channel *channel, struct channel_message *message)
{
    eventfd_t one;
    if (eventfd_read(channel->event_fd, &one) < 0)
        return false;
    pthread_mutex_lock(&channel->lock);
    struct channel_entry *entry = channel->first;
    channel->first = entry->next;
    if (channel->first == NULL)
        channel->last = &channel->first;
    pthread_mutex_unlock(&channel->lock);
    *message = entry->message;
    free(entry);
    return true;
}

void channel_destroy(struct channel *channel)
{
    struct channel_message message;
    if (channel == NULL)
        return;
    while (channel_take(channel, &message))
        continue;
    close(channel->event_fd);
    pthread_mutex_destroy(&channel->lock);
    free(channel);
}
