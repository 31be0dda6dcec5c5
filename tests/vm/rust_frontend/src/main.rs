//! Frontend of vhost-user by rust-vmm's crate, which Cloud Hypervisor's generic vhost-user device is made of, too. It
//! sends what that device sends, in its order, for one queue that a driver in another process uses.
//!
//! rust-frontend SOCKET CONFIG_BYTES REGION_FD REGION_BYTES GPA UVA RING_SIZE DESC AVAIL USED KICK_FD CALL_FD
//!
//! DESC, AVAIL and USED are offsets in the region. It prints the configuration in hexadecimal and "ready", waits for the
//! end of its input, stops the queue and prints where it stopped.

use std::env;
use std::error::Error;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};

use vhost::vhost_user::message::{VhostUserConfigFlags, VhostUserHeaderFlag, VhostUserProtocolFeatures};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vmm_sys_util::eventfd::EventFd;

const RING_INDIRECT_DESC: u64 = 1 << 28;
const RING_EVENT_IDX: u64 = 1 << 29;
const PROTOCOL_FEATURES: u64 = 1 << 30;
const VERSION_1: u64 = 1 << 32;
const WANTED: u64 = RING_INDIRECT_DESC | RING_EVENT_IDX | PROTOCOL_FEATURES | VERSION_1;
const RAM_BYTES: u64 = 64 << 20;
/// Sizes of the accesses by which drivers read a configuration through Cloud Hypervisor.
const ACCESSES: [u32; 4] = [8, 4, 2, 1];

fn memory() -> io::Result<File> {
    // SAFETY: the name ends with a zero, and the descriptor is ours.
    let file = unsafe {
        let fd = libc::memfd_create(c"ram".as_ptr(), libc::MFD_CLOEXEC);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        File::from_raw_fd(fd)
    };
    file.set_len(RAM_BYTES)?;
    Ok(file)
}

fn read_config(frontend: &mut Frontend, bytes: u32) -> Result<Vec<u8>, Box<dyn Error>> {
    let (mut config, mut at, mut turn) = (Vec::new(), 0, 0);
    while at < bytes {
        let size = ACCESSES[turn % ACCESSES.len()];
        turn += 1;
        if at % size != 0 || at + size > bytes {
            continue;
        }
        let (_, piece) = frontend.get_config(at, size, VhostUserConfigFlags::empty(), &vec![0; size as usize])?;
        config.extend(piece);
        at += size;
    }
    Ok(config)
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = env::args().collect();
    let number = |place: usize| words[place].parse::<u64>();
    let (region_fd, region_bytes, gpa, uva) = (number(3)? as RawFd, number(4)?, number(5)?, number(6)?);
    let ram = memory()?;

    let mut frontend = Frontend::connect(&words[1], 1)?;
    frontend.set_owner()?;
    let features = frontend.get_features()? & WANTED;
    let wanted = VhostUserProtocolFeatures::CONFIG
        | VhostUserProtocolFeatures::MQ
        | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS
        | VhostUserProtocolFeatures::REPLY_ACK
        | VhostUserProtocolFeatures::INFLIGHT_SHMFD
        | VhostUserProtocolFeatures::LOG_SHMFD
        | VhostUserProtocolFeatures::BACKEND_REQ;
    let protocol = frontend.get_protocol_features()? & wanted;
    frontend.set_protocol_features(protocol)?;
    frontend.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
    println!("queues {}", frontend.get_queue_num()?);
    let config = read_config(&mut frontend, words[2].parse()?)?;
    println!("config {}", config.iter().map(|byte| format!("{byte:02x}")).collect::<String>());

    frontend.set_features(features)?;
    frontend.set_mem_table(&[
        VhostUserMemoryRegionInfo {
            guest_phys_addr: 0,
            memory_size: RAM_BYTES,
            userspace_addr: 1 << 40,
            mmap_offset: 0,
            mmap_handle: ram.as_raw_fd(),
        },
        VhostUserMemoryRegionInfo {
            guest_phys_addr: gpa,
            memory_size: region_bytes,
            userspace_addr: uva,
            mmap_offset: 0,
            mmap_handle: region_fd,
        },
    ])?;
    let size = number(7)? as u16;
    frontend.set_vring_num(0, size)?;
    let rings = VringConfigData {
        queue_max_size: size,
        queue_size: size,
        flags: 0,
        desc_table_addr: uva + number(8)?,
        avail_ring_addr: uva + number(9)?,
        used_ring_addr: uva + number(10)?,
        log_addr: None,
    };
    frontend.set_vring_addr(0, &rings)?;
    frontend.set_vring_base(0, 0)?;
    // SAFETY: the descriptors were inherited for this.
    let (kick, call) = unsafe { (EventFd::from_raw_fd(number(11)? as RawFd), EventFd::from_raw_fd(number(12)? as RawFd)) };
    frontend.set_vring_call(0, &call)?;
    frontend.set_vring_kick(0, &kick)?;
    frontend.set_vring_enable(0, true)?;
    println!("ready");

    io::stdin().read_to_end(&mut Vec::new())?;
    frontend.set_vring_enable(0, false)?;
    println!("stopped at {}", frontend.get_vring_base(0)?);
    Ok(())
}
