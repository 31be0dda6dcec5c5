/** Definitions of the figures that the page shows. Made by `python -m tools.web.messages`; do not edit. */
export const FIGURES = {
  busy_share: {
    title: "busy share",
    unit: "0 to 1",
    text: "Part of the last 2 to 4 seconds, or of the time since perf was opened if that is shorter, in which the PE ran blocks.",
  },
  busy: {
    title: "busy",
    unit: "ns",
    text: "Time in which the PE ran blocks, as far as perf or load was open on it, since its worker's start.",
  },
  stall: {
    title: "stall",
    unit: "ns",
    text: "Time between two blocks of one launch, in which the PE ran none, counted as busy is.",
  },
  vm_load: {
    title: "load of a VM",
    unit: "0 to 1",
    text: "Mean busy part of the VM's own PEs in the last second. VMs' loads do not add up to that of their GPU: PEs used do.",
  },
  vm_pes_used: {
    title: "PEs used by a VM",
    unit: "PEs",
    text: "Sum of the busy parts of the VM's PEs in the last second. Those of a GPU's VMs add up to the GPU's.",
  },
  gpu_pes_used: {
    title: "PEs used of a GPU",
    unit: "PEs",
    text: "Sum of the PEs used by the GPU's VMs. On the software GPU that may be more than it has, as VMs' PEs share processors.",
  },
  gpu_load: {
    title: "load of a GPU",
    unit: "0 to 1",
    text: "PEs used of the GPU, divided by the PEs that it has; 1 at most.",
  },
  host_load: {
    title: "load of a host",
    unit: "0 to 1",
    text: "PEs used of all GPUs of the host, divided by the PEs that they have; 1 at most.",
  },
  channels: {
    title: "channels of a VM",
    unit: "channels",
    text: "Channels that instances of clients hold on the VM's PEs, without those that the control system opens to measure load.",
  },
  all_channels: {
    title: "all channels of a host",
    unit: "channels",
    text: "Channels on the PEs of the host's VMs, with those that the control system opens to measure load.",
  },
  changed: {
    title: "changed",
    unit: "PEs",
    text: "PEs that do something else: kernel, launch, block or hung differ, or one of the snapshots lacks the PE.",
  },
  stuck: {
    title: "stuck",
    unit: "PEs",
    text: "PEs that are busy with the same block of the same launch, and not newly hung.",
  },
  same: {
    title: "idle as before",
    unit: "PEs",
    text: "PEs that are idle in both snapshots.",
  },
};
