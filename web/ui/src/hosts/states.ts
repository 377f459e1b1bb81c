export type Color = 'blue' | 'green' | 'grey' | 'orange' | 'red';

export type State = { name: string; color: Color };

/** The states of hosts in words, and the colors of their labels. */
const states: Record<string, State> = {
  discovering: { name: 'Discovering', color: 'blue' },
  'discovering-unbound': { name: 'Discovering', color: 'blue' },
  known: { name: 'Ready', color: 'green' },
  'known-unbound': { name: 'Available', color: 'green' },
  insufficient: { name: 'Insufficient', color: 'orange' },
  'insufficient-unbound': { name: 'Insufficient', color: 'orange' },
  'pending-for-input': { name: 'Needs input', color: 'orange' },
  disconnected: { name: 'Disconnected', color: 'red' },
  'disconnected-unbound': { name: 'Disconnected', color: 'red' },
  binding: { name: 'Binding', color: 'blue' },
  unbinding: { name: 'Unbinding', color: 'blue' },
  'unbinding-pending-user-action': { name: 'Boot it to unbind', color: 'orange' },
  reclaiming: { name: 'Being reclaimed', color: 'blue' },
  'reclaiming-rebooting': { name: 'Being reclaimed', color: 'blue' },
  'preparing-for-installation': { name: 'Preparing', color: 'blue' },
  'preparing-successful': { name: 'Prepared', color: 'blue' },
  'preparing-failed': { name: 'Preparation failed', color: 'red' },
  installing: { name: 'Installing', color: 'blue' },
  'installing-in-progress': { name: 'Installing', color: 'blue' },
  'installing-pending-user-action': { name: 'Needs a person', color: 'orange' },
  installed: { name: 'Installed', color: 'green' },
  'added-to-existing-cluster': { name: 'Joined', color: 'green' },
  resetting: { name: 'Resetting', color: 'blue' },
  'resetting-pending-user-action': { name: 'Boot it to reset', color: 'orange' },
  error: { name: 'Failed', color: 'red' },
  cancelled: { name: 'Cancelled', color: 'grey' },
  disabled: { name: 'Disabled', color: 'grey' },
  'disabled-unbound': { name: 'Disabled', color: 'grey' },
};

/** The name of a host's state, and the color of its label. */
export const stateOf = (status: string): State =>
  states[status] ?? { name: status, color: 'grey' };
