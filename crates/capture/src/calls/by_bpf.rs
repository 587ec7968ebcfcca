//! Hits by small programs of ours that run in the kernel, where there is BPF: thousands of
//! functions are watched as easily as one.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use spanwise_recording::calls::{CallLevel, CallSum, HIT_BYTES};
use spanwise_symbols::{ExitPlace, JumpBase, LeaveKind, ProbePlaces};

use super::bpf::exchange::{Exchange, SIDE_BIT};
use super::bpf::noting;
use super::bpf::noting::{NotedAt, Noting, NotingMaps, TARGET_BYTES};
use super::bpf::program::Text;
use super::bpf::ring::HitRing;
use super::bpf::sums::Sums;
use super::bpf::{self, Places};
use super::brake::HitCosts;
use super::place::INSIDE_MAX;
use super::trial;

/// Room for a million calls between two looks at the ring.
const RING_BYTES: u32 = 64 << 20;

/// Indirect jumps that functions may be left by, of all files together.
const TARGETS_MAX: u32 = 1 << 20;

/// A function with the number that its hits carry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Numbered<'a> {
    pub(super) number: u32,
    pub(super) is_go: bool,
    pub(super) places: &'a ProbePlaces,
}

/// Which processes places are watched in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    Process(i32),
    /// All that map the file: who is not recorded is passed over in the kernel.
    Everyone,
}

/// Functions that are watched, and let go, together.
struct Group {
    whose: Whose,
    path: Vec<u8>,
    members: Vec<Member>,
    links: Links,
}

/// Closing them ends the watch.
#[derive(Debug, Default)]
pub(super) struct Links {
    exits: Side,
    entries: Side,
}

impl Links {
    fn all(self) -> impl Iterator<Item = OwnedFd> {
        self.exits.links.into_iter().chain(self.entries.links)
    }
}

/// Programs at places: those that replace them are the other side.
#[derive(Debug, Default)]
struct Side {
    is_second: bool,
    links: Vec<OwnedFd>,
}

/// Where programs are attached, and as which side.
#[derive(Debug, Clone, Copy)]
struct At<'a> {
    whose: Whose,
    path: &'a [u8],
    is_second: bool,
}

/// Offsets and cookies, by the program that is run there.
type PlacesBy = BTreeMap<Noting, (Vec<u64>, Vec<u64>)>;

#[derive(Debug, Clone)]
struct Member {
    number: u32,
    is_go: bool,
    places: ProbePlaces,
}

impl Member {
    fn of(function: &Numbered<'_>) -> Member {
        let Numbered { number, is_go, places } = *function;
        Member { number, is_go, places: places.clone() }
    }

    fn numbered(&self) -> Numbered<'_> {
        Numbered { number: self.number, is_go: self.is_go, places: &self.places }
    }
}

/// Groups of the functions of a file: the kernel takes a moment to let one go, so there are not
/// many.
const GROUPS_MAX: usize = 16;

/// Functions whose calls can be counted instead of being recorded.
const MODES_MAX: u32 = 1 << 18;

pub(super) struct ByBpf {
    /// First, so that nothing is written into a ring that is gone.
    groups: Vec<Group>,
    modes: OwnedFd,
    sums: Sums,
    exchange: Exchange,
    programs: BTreeMap<Noting, OwnedFd>,
    lost: OwnedFd,
    targets: OwnedFd,
    target_count: u32,
    threads: OwnedFd,
    ring: HitRing,
    ring_map: OwnedFd,
    lost_before: u64,
    performs_returns: bool,
}

impl ByBpf {
    /// To be called before threads are made: what is new is tried in a copy of this process.
    pub(super) fn begin(threads: OwnedFd) -> io::Result<ByBpf> {
        let mut all = ByBpf::begin_stepping(threads)?;
        all.performs_returns = trial::may_perform_returns(&mut all);
        Ok(all)
    }

    /// The kernel executes `ret` in single steps.
    fn begin_stepping(threads: OwnedFd) -> io::Result<ByBpf> {
        let (ring, lost) = (bpf::ring(RING_BYTES)?, bpf::counter()?);
        let mut all = ByBpf {
            groups: Vec::new(),
            modes: bpf::numbers(MODES_MAX)?,
            sums: Sums::new()?,
            exchange: Exchange::new()?,
            programs: BTreeMap::new(),
            lost,
            targets: bpf::growing_table(TARGET_BYTES, TARGETS_MAX)?,
            target_count: 0,
            threads,
            ring: HitRing::map(&ring, RING_BYTES as usize)?,
            ring_map: ring,
            lost_before: 0,
            performs_returns: false,
        };
        for at in [NotedAt::Entry, NotedAt::Exit] {
            all.load(Noting { at, is_go: false, is_for_everyone: false, has_entry: false })?;
        }
        Ok(all)
    }

    /// Whether the programs perform `ret` themselves.
    pub(super) fn performs_returns(&self) -> bool {
        self.performs_returns
    }

    /// Loads a program, unless it is loaded already.
    pub(super) fn load(&mut self, what: Noting) -> io::Result<()> {
        if self.programs.contains_key(&what) {
            return Ok(());
        }
        let maps = NotingMaps {
            ring: self.ring_map.as_raw_fd(),
            lost: self.lost.as_raw_fd(),
            targets: self.targets.as_raw_fd(),
            threads: self.threads.as_raw_fd(),
            modes: self.modes.as_raw_fd(),
            sums: self.sums.maps(),
            exchange: self.exchange.maps(),
        };
        let program = bpf::program(&noting::noting(what, maps))?;
        self.programs.insert(what, program);
        Ok(())
    }

    /// What a hit costs the program that is watched.
    pub(super) fn costs(&mut self) -> HitCosts {
        trial::costs(self, self.performs_returns)
    }

    /// Gives the numbers of those that the kernel did not take.
    pub(super) fn attach(
        &mut self,
        whose: Whose,
        path: &[u8],
        functions: &[Numbered<'_>],
    ) -> io::Result<Vec<u32>> {
        let mut refused = Vec::new();
        for functions in functions.chunks(functions.len().div_ceil(GROUPS_MAX).max(1)) {
            refused.extend(self.attach_group(whose, path, functions)?);
        }
        Ok(refused)
    }

    /// All at once; where the kernel does not take one of them, the others without it.
    pub(super) fn attach_group(
        &mut self,
        whose: Whose,
        path: &[u8],
        functions: &[Numbered<'_>],
    ) -> io::Result<Vec<u32>> {
        match (self.try_attach(whose, path, functions), functions) {
            (Ok(links), _) => {
                let members = functions.iter().map(Member::of).collect();
                self.groups.push(Group { whose, path: path.to_vec(), members, links });
            }
            (Err(error), _) if error.raw_os_error() == Some(libc::ESRCH) => {}
            (Err(error), [function]) if is_odd_place(&error) => return Ok(vec![function.number]),
            (Err(error), functions) if is_odd_place(&error) => {
                let (first, last) = functions.split_at(functions.len() / 2);
                let mut refused = self.attach_group(whose, path, first)?;
                refused.extend(self.attach_group(whose, path, last)?);
                return Ok(refused);
            }
            (Err(error), _) => return Err(error),
        }
        Ok(Vec::new())
    }

    /// Records functions less closely from now on.
    pub(super) fn set_levels(&mut self, steps: &[(u32, CallLevel)]) -> io::Result<()> {
        for &(number, level) in steps.iter().filter(|(number, _)| *number < MODES_MAX) {
            bpf::put(&self.modes, number, level.number().into())?;
        }
        let less: BTreeMap<u32, CallLevel> = steps.iter().copied().collect();
        let less = |member: &Member| {
            let level = less.get(&member.number).copied();
            level.filter(|&level| level >= CallLevel::CountedWithoutEnds)
        };
        let has = |group: &Group| group.members.iter().any(|member| less(member).is_some());
        let (changed, others): (Vec<Group>, Vec<Group>) =
            std::mem::take(&mut self.groups).into_iter().partition(has);
        self.groups = others;
        for mut group in changed {
            let mut changes_entries = false;
            for member in group.members.iter_mut().filter(|member| less(member).is_some()) {
                changes_entries |= member.places.exit_at_entry().is_some();
                member.places.exits.clear();
            }
            let count = group.members.len();
            group.members.retain(|member| less(member) != Some(CallLevel::Detached));
            changes_entries |= group.members.len() < count;
            let linked = self.link_again(&mut group, changes_entries);
            if !group.members.is_empty() {
                self.groups.push(group);
            }
            linked?;
        }
        Ok(())
    }

    /// Watches a group whose exits have changed, and perhaps its entries: the others of it without
    /// a gap.
    fn link_again(&mut self, group: &mut Group, changes_entries: bool) -> io::Result<()> {
        let functions: Vec<Numbered<'_>> = group.members.iter().map(Member::numbered).collect();
        let at = |of: &Side| At { whose: group.whose, path: &group.path, is_second: !of.is_second };
        let (exits_at, entries_at) = (at(&group.links.exits), at(&group.links.entries));
        self.exchange.begin(exits_at.is_second)?;
        let mut exchange = || {
            if self.performs_returns {
                wait_for_programs()?;
            }
            group.links.exits = self.attach_exits(exits_at, &functions)?;
            if changes_entries {
                self.exchange.begin(entries_at.is_second)?;
                group.links.entries = self.attach_entries(entries_at, &functions)?;
            }
            Ok(())
        };
        let exchanged = exchange();
        self.exchange.end()?;
        exchanged
    }

    /// What was counted instead of being recorded.
    pub(super) fn sums(&self) -> Vec<CallSum> {
        self.sums.read()
    }

    pub(super) fn try_attach(
        &mut self,
        whose: Whose,
        path: &[u8],
        functions: &[Numbered<'_>],
    ) -> io::Result<Links> {
        // Exits first: of a call that is seen, the return is seen as well.
        let at = At { whose, path, is_second: false };
        let exits = self.attach_exits(at, functions)?;
        Ok(Links { exits, entries: self.attach_entries(at, functions)? })
    }

    fn attach_exits(&mut self, at: At<'_>, functions: &[Numbered<'_>]) -> io::Result<Side> {
        let mut places = PlacesBy::new();
        for &Numbered { number, is_go, places: of_function } in functions {
            // The program of an exit at the entry notes calls, too, and so is one of those.
            let exits = of_function.exits.iter().filter(|exit| exit.offset != of_function.entry);
            for exit in exits {
                let noted = NotedAt::exit(exit.kind, self.performs_returns);
                let is_for_everyone = at.whose == Whose::Everyone;
                let what = Noting { at: noted, is_go, is_for_everyone, has_entry: false };
                let (offsets, cookies) = places.entry(what).or_default();
                offsets.push(exit.offset);
                cookies.push(cookie(number, at.is_second, self.detail(exit)?));
            }
        }
        self.link(at, places)
    }

    fn attach_entries(&mut self, at: At<'_>, functions: &[Numbered<'_>]) -> io::Result<Side> {
        let mut places = PlacesBy::new();
        for &Numbered { number, is_go, places: of_function } in functions {
            let is_for_everyone = at.whose == Whose::Everyone;
            let (noted, detail) = match of_function.exit_at_entry() {
                Some(exit) => (NotedAt::exit(exit.kind, self.performs_returns), self.detail(exit)?),
                None => (NotedAt::Entry, 0),
            };
            let has_entry = noted != NotedAt::Entry;
            let what = Noting { at: noted, is_go, is_for_everyone, has_entry };
            let (offsets, cookies) = places.entry(what).or_default();
            offsets.push(of_function.entry);
            cookies.push(cookie(number, at.is_second, detail));
        }
        self.link(at, places)
    }

    fn link(&mut self, at: At<'_>, places: PlacesBy) -> io::Result<Side> {
        let At { whose, path, is_second } = at;
        let pid = match whose {
            Whose::Process(pid) => pid,
            Whose::Everyone => 0,
        };
        let mut links = Vec::new();
        for (what, (offsets, cookies)) in places {
            self.load(what)?;
            let (offsets, cookies) = (&offsets[..], &cookies[..]);
            let places = Places { path, pid, offsets, cookies };
            links.push(bpf::attach(&self.programs[&what], &places)?);
        }
        Ok(Side { is_second, links })
    }

    /// With programs that perform returns or do not, whether or not they are known to work.
    pub(super) fn attach_as(
        &mut self,
        whose: Whose,
        path: &[u8],
        functions: &[Numbered<'_>],
        performs_returns: bool,
    ) -> io::Result<Links> {
        let before = std::mem::replace(&mut self.performs_returns, performs_returns);
        let links = self.try_attach(whose, path, functions);
        self.performs_returns = before;
        links
    }

    /// What the program of an exit needs besides the function: how much `ret` takes off the stack,
    /// or the number of what an indirect jump is compared with.
    fn detail(&mut self, exit: &ExitPlace) -> io::Result<u32> {
        let displacement = match exit.kind {
            LeaveKind::Return { popped } => return Ok(popped.into()),
            LeaveKind::Jump | LeaveKind::Conditional(_) => return Ok(0),
            LeaveKind::ThroughRegister(_) => 0,
            LeaveKind::ThroughMemory(memory) => {
                let is_next = memory.base == JumpBase::NextInstruction;
                let behind = if is_next { i64::from(exit.len) } else { 0 };
                i64::from(memory.displacement) + behind
            }
        };
        if exit.inside.len() > INSIDE_MAX {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let mut words = vec![displacement as u64];
        words.extend(exit.inside.iter().flat_map(|&(from, to)| [from as u64, to as u64]));
        words.resize(TARGET_BYTES as usize / 8, 0);
        let number = self.target_count;
        bpf::put_words(&self.targets, number, &words)?;
        self.target_count += 1;
        Ok(number)
    }

    /// What was noted since the last time, and how much there was no room for.
    pub(super) fn drain(&mut self) -> (Vec<u8>, u64) {
        let mut hits = Vec::new();
        self.ring.drain(|hit| hits.extend(hit.get(..HIT_BYTES).unwrap_or_default()));
        let lost = bpf::counted(&self.lost).unwrap_or(self.lost_before);
        let new = lost.saturating_sub(self.lost_before);
        self.lost_before += new;
        (hits, new)
    }

    /// No more is noted from now on.
    pub(super) fn stop(&mut self) {
        // The kernel takes its time for each, during which it does nothing.
        let mut links: Vec<OwnedFd> =
            self.groups.drain(..).flat_map(|group| group.links.all()).collect();
        std::thread::scope(|scope| {
            while !links.is_empty() {
                let some = links.split_off(links.len() - links.len().div_ceil(CLOSERS));
                scope.spawn(move || drop(some));
            }
        });
    }
}

/// What a program knows of a place.
fn cookie(number: u32, is_second: bool, detail: u32) -> u64 {
    debug_assert!(number >> SIDE_BIT == 0, "there is a bit for the side");
    u64::from(number) | u64::from(is_second) << SIDE_BIT | u64::from(detail) << 32
}

/// Until every program that runs now has ended: the kernel waits for all of them when it takes one
/// away, wherever that is.
pub(super) fn wait_for_programs() -> io::Result<()> {
    let (path, places) = trial::own_function().ok_or(io::ErrorKind::NotFound)?;
    let nothing = bpf::program(&Text::default().finish())?;
    let pid = std::process::id() as i32;
    let places = Places { path: &path, pid, offsets: &[places.entry], cookies: &[0] };
    bpf::attach(&nothing, &places).map(drop)
}

/// Threads that let the kernel take away what was watched, about.
const CLOSERS: usize = 8;

/// The kernel finds an instruction there that it cannot watch.
pub(super) fn is_odd_place(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINVAL | libc::EOPNOTSUPP | libc::EILSEQ | libc::EIO | ENOTSUPP)
    )
}

/// As the kernel calls it inside, and sometimes outside.
const ENOTSUPP: i32 = 524;
