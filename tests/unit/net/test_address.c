/* test_address.c: which addresses are told to others, and in which order those of others are tried. */
#include "unit.h"

#include <arpa/inet.h>

#include "net/address.h"
#include "net/peer_table.h"

static struct in6_addr parse(const char *text)
{
    struct in6_addr address;
    ck_assert_msg(inet_pton(AF_INET6, text, &address) == 1, "%s", text);
    return address;
}

static struct address_net net(const char *text, int prefix_bits, bool bridge, bool loopback)
{
    return (struct address_net){parse(text), prefix_bits, bridge, loopback};
}

static void expect(const struct in6_addr *address, const char *text)
{
    char found[ADDRESS_TEXT_BYTES];
    address_text(address, found);
    ck_assert_str_eq(found, text);
}

START_TEST(near_ones_first_own_ones_last)
{
    const struct address_net nets[] = {
        net("::1", 128, false, true), net("::ffff:172.17.0.1", 112, true, false),
        net("::ffff:10.1.3.7", 118, false, false), net("fd00:1::7", 64, false, false)};
    struct in6_addr addresses[] = {parse("::ffff:172.17.0.1"),  parse("::ffff:172.17.0.9"),
                                   parse("::ffff:192.168.1.1"), parse("::ffff:10.1.4.1"),
                                   parse("::ffff:10.1.3.200"),  parse("fd00:1::200"),
                                   parse("fd00:2::200")};
    address_sort(addresses, 7, nets, 4);
    static const char *const order[] = {"10.1.3.200",  "fd00:1::200", "192.168.1.1", "10.1.4.1",
                                        "fd00:2::200", "172.17.0.9",  "172.17.0.1"};
    for (int i = 0; i < 7; i++)
        expect(&addresses[i], order[i]);
}
END_TEST

START_TEST(a_prefix_may_end_inside_a_byte)
{
    const struct address_net nets[] = {net("::ffff:10.1.3.7", 118, false, false)}; /* /22: 10.1.0 to 10.1.3 */
    struct in6_addr addresses[] = {parse("::ffff:10.1.4.1"), parse("::ffff:10.1.2.1")};
    address_sort(addresses, 2, nets, 1);
    expect(&addresses[0], "10.1.2.1");
}
END_TEST

START_TEST(turns_are_spread_over_near_ones)
{
    const struct address_net nets[] = {net("::ffff:10.1.3.7", 120, false, false),
                                       net("::ffff:10.2.3.7", 120, false, false),
                                       net("::ffff:172.17.0.1", 112, true, false)};
    static const char *const orders[][5] = {
        {"10.1.3.200", "10.2.3.200", "10.1.3.201", "192.168.1.1", "172.17.0.9"},
        {"10.2.3.200", "10.1.3.201", "10.1.3.200", "192.168.1.1", "172.17.0.9"},
        {"10.1.3.201", "10.1.3.200", "10.2.3.200", "192.168.1.1", "172.17.0.9"},
    };
    for (int turn = 0; turn < 16; turn++) {
        struct in6_addr addresses[] = {parse("::ffff:10.1.3.200"), parse("::ffff:10.2.3.200"),
                                       parse("::ffff:10.1.3.201"), parse("::ffff:192.168.1.1"),
                                       parse("::ffff:172.17.0.9")};
        address_rotate(addresses, 5, nets, 3, turn);
        for (int i = 0; i < 5; i++)
            expect(&addresses[i], orders[turn % 3][i]);
    }
}
END_TEST

/* None is on a subnet of ours: any but the first might not answer. */
START_TEST(far_ones_stay_in_their_order)
{
    const struct address_net nets[] = {net("::ffff:10.1.3.7", 120, false, false)};
    struct in6_addr addresses[] = {parse("::ffff:10.1.4.1"), parse("::ffff:10.1.5.1")};
    address_rotate(addresses, 2, nets, 1, 1);
    expect(&addresses[0], "10.1.4.1");
    expect(&addresses[1], "10.1.5.1");
}
END_TEST

START_TEST(bridges_are_told_last_and_loopback_alone)
{
    const struct address_net nets[] = {
        net("::ffff:127.0.0.1", 104, false, true), net("::ffff:172.17.0.1", 112, true, false),
        net("::ffff:10.1.3.7", 118, false, false), net("::ffff:10.1.3.7", 118, false, false)};
    struct in6_addr addresses[4];
    ck_assert_int_eq(address_select_advertised(nets, 4, addresses, 4), 2);
    expect(&addresses[0], "10.1.3.7");
    expect(&addresses[1], "172.17.0.1");
    ck_assert_int_eq(address_select_advertised(nets, 4, addresses, 1), 1);
    expect(&addresses[0], "10.1.3.7");
    ck_assert_int_eq(address_select_advertised(nets, 1, addresses, 4), 1);
    expect(&addresses[0], "127.0.0.1");
    ck_assert_int_eq(address_select_advertised(nets, 0, addresses, 4), 0);
}
END_TEST

START_TEST(this_machine_has_an_address)
{
    struct in6_addr addresses[PEER_MAX_ADDRESSES];
    int count = address_advertised(addresses, PEER_MAX_ADDRESSES);
    ck_assert_int_ge(count, 1);
    ck_assert_int_le(count, PEER_MAX_ADDRESSES);
    for (int i = 0; i < count; i++)
        ck_assert(!IN6_IS_ADDR_LINKLOCAL(&addresses[i]) && !IN6_IS_ADDR_UNSPECIFIED(&addresses[i]));
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("address");
    tcase_add_test(tcase, near_ones_first_own_ones_last);
    tcase_add_test(tcase, a_prefix_may_end_inside_a_byte);
    tcase_add_test(tcase, turns_are_spread_over_near_ones);
    tcase_add_test(tcase, far_ones_stay_in_their_order);
    tcase_add_test(tcase, bridges_are_told_last_and_loopback_alone);
    tcase_add_test(tcase, this_machine_has_an_address);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("address", fill);
}
