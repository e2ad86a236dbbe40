//! The lease keeper in virtual time: what it asks for when, whatever the registry answers.

use std::time::Duration;

use felt::lease::{ACQUIRE_PAUSE, ACQUIRE_PAUSE_MAX, Action, Keeper, KeeperSettings, Lease, LeaseAttrs, RENEW_PAUSE_MAX};
use felt::net::Moment;

const DAY: Duration = Duration::from_hours(24);
const HOUR: Duration = Duration::from_hours(1);

fn at(seconds: f64) -> Moment {
    Moment::from_origin(Duration::from_secs_f64(seconds))
}

fn lease(subnet: &str, ttl: Option<Duration>, revision: u64) -> Lease {
    let attrs = LeaseAttrs::udp([192, 168, 64, 3].into());
    Lease { subnet: subnet.parse().unwrap(), attrs, ttl, revision }
}

fn ours(ttl: Duration) -> Lease {
    lease("10.5.1.0-24", Some(ttl), 0)
}

fn keeper(margin: Duration) -> Keeper {
    Keeper::new(KeeperSettings { ttl: DAY, margin }, None, 1)
}

fn holding(margin: Duration, ttl: Option<Duration>) -> Keeper {
    let mut keeper = keeper(margin);
    keeper.acquired(Moment::ZERO, lease("10.5.1.0-24", ttl, 7));
    keeper
}

fn wait(keeper: &mut Keeper, now: Moment) -> Duration {
    match keeper.next(now) {
        Action::Wait(Some(until)) => until.since(now),
        Action::Wait(None) => Duration::MAX,
        _ => Duration::ZERO,
    }
}

#[test]
fn a_lease_is_renewed_a_margin_before_its_end() {
    let mut keeper = holding(HOUR, Some(DAY));
    assert_eq!(keeper.next(Moment::ZERO), Action::Wait(Some(Moment::ZERO + 23 * HOUR)));
    let now = Moment::ZERO + 23 * HOUR;
    assert_eq!(keeper.next(now), Action::Renew(lease("10.5.1.0-24", Some(DAY), 7)));
    keeper.renewed(now, lease("10.5.1.0-24", Some(DAY), 8));
    assert_eq!(wait(&mut keeper, now), 23 * HOUR);
    assert_eq!(keeper.expires(), Some(now + DAY));
    assert_eq!(keeper.held().unwrap().revision, 8);
}

#[test]
fn a_margin_of_the_ttl_or_more_is_half_of_it() {
    for margin in [DAY, 2 * DAY, Duration::MAX] {
        assert_eq!(wait(&mut holding(margin, Some(DAY)), Moment::ZERO), DAY / 2);
    }
    assert_eq!(wait(&mut holding(HOUR, Some(Duration::from_secs(4))), Moment::ZERO), Duration::from_secs(2));
    assert_eq!(wait(&mut holding(Duration::ZERO, Some(Duration::MAX)), Moment::ZERO), Duration::MAX);
}

#[test]
fn a_reservation_is_never_renewed_and_never_ends() {
    let mut keeper = holding(HOUR, None);
    assert_eq!(keeper.next(Moment::ZERO + 1_000_000 * DAY), Action::Wait(None));
    assert_eq!(keeper.expires(), None);
    // It ends as one when somebody gives the record a TTL, and the other way round.
    keeper.own_seen(at(10.0), lease("10.5.1.0-24", Some(DAY), 8));
    assert_eq!(wait(&mut keeper, at(10.0)), 23 * HOUR);
    keeper.own_seen(at(20.0), lease("10.5.1.0-24", None, 9));
    assert_eq!(keeper.next(at(20.0)), Action::Wait(None));
}

#[test]
fn a_ttl_that_is_not_positive_is_renewed_now_but_not_in_a_tight_loop() {
    let mut keeper = holding(HOUR, Some(Duration::ZERO));
    let (mut now, mut renewals) = (Moment::ZERO, 0);
    while now < Moment::ZERO + HOUR {
        match keeper.next(now) {
            Action::Renew(lease) => {
                renewals += 1;
                keeper.renewed(now, lease);
            }
            Action::Wait(Some(until)) => now = until,
            other => panic!("{other:?}"),
        }
    }
    assert!((60..=130).contains(&renewals), "{renewals} renewals in an hour");
    keeper.renewed(now, ours(DAY));
    assert_eq!(keeper.held().unwrap().revision, 7, "an older record is no news");
    keeper.renewed(now, lease("10.5.1.0-24", Some(DAY), 8));
    assert_eq!(wait(&mut keeper, now), 23 * HOUR);
}

#[test]
fn renewals_that_fail_for_a_ttl_mean_that_the_lease_is_lost() {
    for ttl in [Duration::from_secs(5), DAY] {
        let mut keeper = holding(HOUR, Some(ttl));
        let (mut now, mut tries) = (Moment::ZERO, 0);
        let dropped = loop {
            match keeper.next(now) {
                Action::Renew(_) => {
                    tries += 1;
                    keeper.renew_failed(now);
                }
                Action::Wait(Some(until)) => {
                    assert!(until > now);
                    now = until;
                }
                Action::Drop(lease) => break lease,
                other => panic!("{other:?}"),
            }
        };
        assert!(now >= Moment::ZERO + ttl && now <= Moment::ZERO + ttl + RENEW_PAUSE_MAX, "dropped at {now:?}");
        assert!((4..200).contains(&tries), "{tries} tries");
        assert_eq!(keeper.held(), None);
        assert_eq!(keeper.next(now), Action::Acquire { previous: Some(dropped.subnet.v4) });
    }
}

#[test]
fn a_lost_lease_is_wanted_back_at_once_five_times_over() {
    let mut keeper = holding(HOUR, Some(DAY));
    let mut now = Moment::ZERO;
    for pause in [100.0, 0.5, 3.0, 0.01, 0.01] {
        now = now + Duration::from_secs_f64(pause);
        keeper.lost(now);
        let wait = wait(&mut keeper, now);
        assert!(wait <= Duration::from_millis(200), "no subnet for {wait:?}");
        now = now + wait;
        assert_eq!(keeper.next(now), Action::Acquire { previous: Some("10.5.1.0/24".parse().unwrap()) });
        keeper.acquired(now, ours(DAY));
    }
}

#[test]
fn two_nodes_that_take_the_subnet_from_each_other_slow_down() {
    let mut keeper = holding(HOUR, Some(DAY));
    let (mut now, mut acquisitions) = (Moment::ZERO, 0);
    while now < at(60.0) {
        keeper.lost(now);
        now = now + wait(&mut keeper, now);
        keeper.acquired(now, ours(DAY));
        acquisitions += 1;
    }
    assert!(acquisitions < 40, "{acquisitions} in a minute");
}

#[test]
fn failed_acquisitions_pause_longer_and_longer() {
    let mut keeper = Keeper::new(KeeperSettings { ttl: DAY, margin: HOUR }, Some("10.5.9.0/24".parse().unwrap()), 1);
    let (mut now, mut pauses) = (at(3.0), Vec::new());
    for _ in 0..40 {
        assert_eq!(keeper.next(now), Action::Acquire { previous: Some("10.5.9.0/24".parse().unwrap()) });
        keeper.acquire_failed(now);
        let pause = wait(&mut keeper, now);
        now = now + pause;
        pauses.push(pause);
    }
    assert!(pauses[0] >= ACQUIRE_PAUSE / 2 && pauses[0] <= ACQUIRE_PAUSE);
    assert!(pauses[10..].iter().all(|pause| (ACQUIRE_PAUSE_MAX / 2..=ACQUIRE_PAUSE_MAX).contains(pause)));
    assert!(pauses[10..].windows(2).any(|pair| pair[0] != pair[1]), "no jitter");
    keeper.acquired(now, ours(DAY));
    assert_eq!(wait(&mut keeper, now), 23 * HOUR);
}

#[test]
fn a_record_seen_again_ends_no_later() {
    let mut keeper = holding(HOUR, Some(DAY));
    let again = |ttl| lease("10.5.1.0-24", Some(ttl), 7);
    keeper.own_seen(at(60.0), again(DAY));
    assert_eq!(keeper.expires(), Some(Moment::ZERO + DAY));
    keeper.own_seen(at(60.0), again(HOUR));
    assert_eq!(keeper.expires(), Some(at(60.0) + HOUR));
    // A newer one was written later, so it is believed.
    keeper.own_seen(at(90.0), lease("10.5.1.0-24", Some(DAY), 100));
    assert_eq!(keeper.expires(), Some(at(90.0) + DAY));
}

#[test]
fn what_comes_late_or_in_the_wrong_state_changes_nothing() {
    let mut keeper = holding(HOUR, Some(DAY));
    keeper.acquire_failed(at(1.0));
    keeper.own_seen(at(1.0), lease("10.5.1.0-24", Some(HOUR), 6));
    keeper.own_seen(at(1.0), lease("10.5.2.0-24", Some(HOUR), 9));
    assert_eq!(keeper.expires(), Some(Moment::ZERO + DAY));
    keeper.lost(at(2.0));
    keeper.lost(at(2.0));
    keeper.renewed(at(2.0), ours(DAY));
    keeper.renew_failed(at(2.0));
    keeper.own_seen(at(2.0), ours(DAY));
    assert_eq!(keeper.next(at(2.0)), Action::Acquire { previous: Some("10.5.1.0/24".parse().unwrap()) });
}

#[test]
fn what_is_to_be_published_is_published_once_and_with_pauses() {
    for ttl in [Some(Duration::from_hours(24)), None] {
        let mut keeper = holding(HOUR, ttl);
        keeper.renew_now(at(10.0));
        assert!(matches!(keeper.next(at(10.0)), Action::Renew(_)), "{ttl:?}");
        let mut tries = 0;
        let mut now = at(10.0);
        while now < at(100.0) {
            match keeper.next(now) {
                Action::Renew(_) => {
                    tries += 1;
                    keeper.renew_failed(now);
                }
                Action::Wait(Some(until)) => now = until,
                other => panic!("{other:?}"),
            }
        }
        assert!((4..=12).contains(&tries), "{tries} tries in 90 s");
        // An answer to what was asked before does not count.
        keeper.renew_now(at(200.0));
        keeper.renewed(at(199.0), lease("10.5.1.0-24", ttl, 8));
        assert!(matches!(keeper.next(at(200.0)), Action::Renew(_)));
        keeper.renewed(at(200.0), lease("10.5.1.0-24", ttl, 9));
        assert!(matches!(keeper.next(at(201.0)), Action::Wait(_)));
    }
}
