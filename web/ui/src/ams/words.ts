import type { AmsStatus, ClusterLine, Fields, LineState, RelayState } from './api';

/** How a line's state is called, and the colour of its label. */
export const lineStates: Record<LineState, { name: string; color: 'blue' | 'green' | 'red' | 'grey' }> = {
  attention: { name: 'Needs attention', color: 'red' },
  waiting: { name: 'Waiting', color: 'blue' },
  sent: { name: 'Told', color: 'green' },
  left: { name: 'Ended', color: 'grey' },
};

/** How the relay's state is called, and how grave it is. */
const relayStates: Record<RelayState, { name: string; variant: 'success' | 'info' | 'warning' | 'danger' }> = {
  off: { name: 'Switched off in the configuration', variant: 'info' },
  'no-credentials': { name: 'Not logged in', variant: 'info' },
  'by-hand': { name: 'Connects by hand', variant: 'info' },
  offline: { name: 'Offline', variant: 'warning' },
  online: { name: 'Connected', variant: 'success' },
  'paused-credentials': { name: 'Paused: the credentials are not taken', variant: 'danger' },
  'paused-permission': { name: 'Paused: everything is forbidden', variant: 'danger' },
  'paused-identity': { name: 'Paused: another organization', variant: 'danger' },
  'paused-person': { name: 'Paused: who speaks?', variant: 'danger' },
};

/** How the relay stands, and how grave that is; without a connection, nothing is wrong as long as none was tried for. */
export const standing = ({ state, problem }: Pick<AmsStatus, 'state' | 'problem'>) =>
  state === 'offline' && !problem ? ({ name: 'Not connected: nothing waits to be told', variant: 'info' } as const) : relayStates[state];

const names: [keyof Fields, string][] = [
  ['display_name', 'name'],
  ['external_cluster_id', "cluster's own id"],
  ['console_url', "console's URL"],
];

/** Fields as a person reads them: "name one, console's URL https://…". */
export const describeFields = (fields: Fields): string =>
  names
    .flatMap(([key, name]) => (fields[key] ? [`${name} ${fields[key]}`] : []))
    .join(', ');

/** What AMS knows of a cluster. */
export const knows = ({ ams_status: status, told }: ClusterLine): string => {
  const fields = describeFields(told);
  if (!status && !fields) {
    return 'Nothing';
  }
  return [status, fields].filter(Boolean).join(': ');
};

/** What AMS has yet to be told of a cluster; "" when there is nothing. */
export const waits = ({ state, to_become: become, to_tell: fields, ams_status: status, deleted }: ClusterLine): string => {
  if (state === 'sent' || state === 'left') {
    return '';
  }
  if (become === 'absent') {
    return 'that it is gone';
  }
  const parts = [describeFields(fields)];
  if (become === 'active' && status !== 'Active' && status !== 'Disconnected') {
    parts.push('that it is installed');
  }
  if (deleted) {
    parts.push('and nothing more: it is gone here');
  }
  return parts.filter(Boolean).join(', ') || 'something that changed and changed back';
};

/** What a person can do about a cluster that needs attention; "" for others. */
export const whatToDo = ({ state, kind, http, ams_status: status }: ClusterLine): string => {
  if (state !== 'attention') {
    return '';
  }
  if (http === 409) {
    return 'Ask the account that has the cluster in OpenShift Cluster Manager to delete it there, then try again; or leave it so.';
  }
  if (http === 403) {
    return 'Have the account given the right, or log in with another one, then try again.';
  }
  if (kind === 'dead') {
    return 'Edit what is told, or try again; a change of the cluster is told by itself.';
  }
  if (kind === 'blocked') {
    return 'Look at the subscription in OpenShift Cluster Manager, then try again, or leave it so.';
  }
  return status === 'Active' || status === 'Disconnected'
    ? 'Have it created again, try again, or leave it so.'
    : 'Try again once it is settled in OpenShift Cluster Manager, or leave it so.';
};

/** The fingerprint in what the appliance says of a key that it does not trust; "" if there is none. */
export const fingerprintIn = (sentence: string): string => /SHA256:[A-Za-z0-9+/]{43}/.exec(sentence)?.[0] ?? '';
