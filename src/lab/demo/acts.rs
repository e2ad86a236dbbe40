//! The acts of the demo, each showing one promise and checking it.

use std::time::{Duration, Instant};

use super::claims::{PATIENCE, SILENCE, claim, pod_of, reaches, require_reach};
use super::figures::{bytes, milliseconds, rate, time};
use super::{Stage, policy};
use crate::lab::probe::{Amount, Pinger, Transfer, ping};
use crate::lab::{Interrupt, Lab, LabError, Node, Place};

/// How many pods are shown in the matrix; with more, the first of each node stands for the others.
const MATRIX_PODS: usize = 9;
/// How long an answer may take to come back after a repair.
const RECOVERY: Duration = Duration::from_secs(10);
const TRANSFER_TIME: Duration = Duration::from_secs(3);
const TRANSFER_THROUGH_TIME: Duration = Duration::from_secs(6);
/// When the daemon is killed, and how long it stays dead.
const KILL_AFTER: Duration = Duration::from_millis(1500);
const DEAD_FOR: Duration = Duration::from_millis(500);
const REGISTRY_AWAY: Duration = Duration::from_secs(3);
const PING_PACE: Duration = Duration::from_millis(20);
/// A transfer may pause while a daemon is dead, and TCP waits longer with every vain attempt.
const STALL: Duration = Duration::from_secs(20);

/// All acts, in order.
pub(super) fn play(lab: &Lab, stage: &mut Stage<'_>, interrupt: &Interrupt) -> Result<(), LabError> {
    show_nodes(lab, stage)?;
    ping_matrix(lab, stage, interrupt)?;
    transfer(lab, stage, interrupt)?;
    death_and_return(lab, stage, interrupt)?;
    transfer_through_death(lab, stage, interrupt)?;
    policy::act(lab, stage, interrupt)?;
    registry_away(lab, stage, interrupt)
}

fn show_nodes(lab: &Lab, stage: &mut Stage<'_>) -> Result<(), LabError> {
    stage.act("Each node has leased a subnet, and its pods live in it");
    let mut rows = vec![row(["node", "underlay", "lease", "device", "pods"])];
    let mut leases = std::collections::BTreeSet::new();
    for node in lab.status()?.nodes {
        let pods: Vec<String> = node.pods.iter().filter_map(|pod| pod.address).map(|address| address.to_string()).collect();
        let lease = node.lease.map(|lease| lease.subnet).ok_or_else(|| claim(format!("{} has no lease", node.name)))?;
        if !leases.insert(lease) {
            return Err(claim(format!("{lease} is leased by two nodes")));
        }
        let number = u16::try_from(leases.len()).unwrap_or(u16::MAX);
        let device = lab.node(number)?.tun()?.unwrap_or_else(|| "-".to_owned());
        rows.push(row([&node.name, &node.underlay.to_string(), &lease.to_string(), &device, &pods.join("  ")]));
    }
    stage.table(rows);
    Ok(())
}

fn ping_matrix(lab: &Lab, stage: &mut Stage<'_>, interrupt: &Interrupt) -> Result<(), LabError> {
    let all: Vec<Place> = lab.pods().collect();
    let pods: Vec<Place> = if all.len() <= MATRIX_PODS { all.clone() } else { lab.nodes().map(first_pod).collect() };
    stage.act("Every pod reaches every pod");
    stage.doing(&format!("pinging from each of {} pods to each other", pods.len()));
    let mut rows = vec![std::iter::once(String::new()).chain(pods.iter().map(ToString::to_string)).collect::<Vec<_>>()];
    let (mut answered, mut asked, mut times) = (0, 0, Vec::new());
    for from in &pods {
        let netns = lab.netns(*from)?;
        let mut cells = vec![from.to_string()];
        for to in &pods {
            if from == to {
                cells.push("·".to_owned());
                continue;
            }
            let address = lab.address(*to)?;
            // The first also resolves link addresses, and may come before a daemon knows of the pod; the second is what every
            // later one takes.
            let first = reaches(lab, *from, *to, PATIENCE, interrupt)?;
            let second = if first { ping(&netns, address, PATIENCE, interrupt)? } else { None };
            asked += 1;
            answered += u32::from(second.is_some());
            times.extend(second);
            cells.push(second.map_or_else(|| "✗ lost".to_owned(), milliseconds));
        }
        rows.push(cells);
    }
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    if answered < asked {
        stage.settled();
        stage.table(rows);
        return Err(claim(format!("{} of {asked} pings got no answer", asked - answered)));
    }
    stage.done(&format!("{answered} of {asked} pings answered, half of them within {}", milliseconds(median)));
    stage.table(rows);
    if pods.len() < all.len() {
        stage.note(&format!("shown: the first pod of each node, of {} pods in all", all.len()));
    }
    Ok(())
}

fn transfer(lab: &Lab, stage: &mut Stage<'_>, interrupt: &Interrupt) -> Result<(), LabError> {
    let (from, to) = (pod_of(1), pod_of(2));
    stage.act(&format!("A TCP transfer from {from} to {to}"));
    stage.doing(&format!("sending for {}", time(TRANSFER_TIME)));
    let report = start_transfer(lab, from, to, TRANSFER_TIME)?.finish(interrupt)?;
    let (amount, rate) = (bytes(report.bytes), rate(report.bits_per_second()));
    stage.done(&format!("{amount} in {}: {rate}, each byte compared", time(report.time)));
    Ok(())
}

fn death_and_return(lab: &Lab, stage: &mut Stage<'_>, interrupt: &Interrupt) -> Result<(), LabError> {
    let victim = lab.node(lab.plan().nodes)?;
    let (near, gone) = (pod_of(1), first_pod(victim));
    stage.act(&format!("{} dies, and comes back", victim.place()));
    let before = victim.subnet()?;
    let pid = victim.pid().unwrap_or_default();
    victim.kill()?;
    stage.done(&format!("kill -9 of its daemon, process {pid}"));
    stage.doing("listening for what the others see");
    if reaches(lab, near, gone, SILENCE, interrupt)? {
        return Err(claim(format!("{gone} answered though its node is dead")));
    }
    stage.done(&format!("{near} gets no answer from {gone}"));
    if victim.number() > 2 {
        require_reach(lab, near, pod_of(2), PATIENCE, interrupt)?;
        stage.done(&format!("{near} and {} go on as before", pod_of(2)));
    }
    stage.doing("starting it again");
    victim.start()?;
    let took = victim.wait_ready(interrupt)?;
    let after = victim.subnet()?;
    if before != after {
        return Err(claim(format!("{} came back with another lease: {before:?} became {after:?}", victim.place())));
    }
    let subnet = after.map(|env| env.subnet.to_string()).unwrap_or_default();
    stage.done(&format!("started again and ready after {}, with the same lease {subnet}", time(took)));
    let begin = Instant::now();
    require_reach(lab, near, gone, RECOVERY, interrupt)?;
    stage.done(&format!("{gone} answers again, {} later", time(begin.elapsed())));
    Ok(())
}

fn transfer_through_death(lab: &Lab, stage: &mut Stage<'_>, interrupt: &Interrupt) -> Result<(), LabError> {
    let (from, to) = (pod_of(1), pod_of(2));
    let victim = lab.node(2)?;
    stage.act(&format!("A TCP transfer from {from} to {to} outlives the daemon of {}", victim.place()));
    stage.doing(&format!("sending for {}", time(TRANSFER_THROUGH_TIME)));
    let transfer = start_transfer(lab, from, to, TRANSFER_THROUGH_TIME)?;
    interrupt.sleep(KILL_AFTER)?;
    victim.kill()?;
    stage.done(&format!("kill -9 of the daemon, {} into the transfer", bytes(transfer.received())));
    stage.doing("leaving it dead for a moment");
    interrupt.sleep(DEAD_FOR)?;
    // While it is dead nothing arrives, so whatever is above this came through afterwards.
    let before = transfer.received();
    victim.start()?;
    let took = victim.wait_ready(interrupt)?;
    stage.done(&format!("started again {} later, and ready after {}", time(DEAD_FOR), time(took)));
    stage.doing("sending on");
    let report = transfer.finish(interrupt)?;
    if report.bytes <= before {
        return Err(claim("no byte came through after the restart".to_owned()));
    }
    stage.done(&format!("the same connection went on: {} in {}, each byte compared", bytes(report.bytes), time(report.time)));
    Ok(())
}

fn registry_away(lab: &Lab, stage: &mut Stage<'_>, interrupt: &Interrupt) -> Result<(), LabError> {
    let (from, to) = (pod_of(1), pod_of(2));
    stage.act(&format!("The registry is killed for {}", time(REGISTRY_AWAY)));
    stage.doing(&format!("pinging from {from} to {to} meanwhile"));
    let pinger = Pinger::start(&lab.netns(from)?, lab.address(to)?, PING_PACE)?;
    lab.registry().kill()?;
    interrupt.sleep(REGISTRY_AWAY)?;
    lab.registry().start(interrupt)?;
    let report = pinger.stop()?;
    if report.received == 0 || report.lost() > 0 {
        return Err(claim(format!("{} of {} pings were lost", report.lost(), report.sent)));
    }
    stage.done(&format!("{} of {} pings answered: forwarding needs no registry", report.received, report.sent));
    stage.doing("looking after the nodes now that it is back");
    for node in lab.nodes() {
        node.wait_ready(interrupt)?;
    }
    stage.done("every node is well");
    Ok(())
}

fn start_transfer(lab: &Lab, from: Place, to: Place, duration: Duration) -> Result<Transfer, LabError> {
    Transfer::start(&lab.netns(from)?, &lab.netns(to)?, lab.address(to)?, Amount::Time(duration), STALL)
}

fn first_pod(node: Node<'_>) -> Place {
    pod_of(node.number())
}

fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.into_iter().map(str::to_owned).collect()
}
