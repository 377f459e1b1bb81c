import type { AmsStatus, ClusterLine, Fields, LineState, RelayState } from './api';

/** The name of each state of a line, and the color of its label. */
export const lineStates: Record<LineState, { name: string; color: 'blue' | 'green' | 'red' | 'grey' }> = {
  attention: { name: 'Needs attention', color: 'red' },
  waiting: { name: 'Waiting', color: 'blue' },
  sent: { name: 'Sent', color: 'green' },
  left: { name: 'Ended', color: 'grey' },
};

/** The name of each state of the relay, and its severity. */
const relayStates: Record<RelayState, { name: string; variant: 'success' | 'info' | 'warning' | 'danger' }> = {
  off: { name: 'Disabled in the configuration', variant: 'info' },
  'no-credentials': { name: 'Not logged in', variant: 'info' },
  'by-hand': { name: 'Connects only on request', variant: 'info' },
  offline: { name: 'Offline', variant: 'warning' },
  online: { name: 'Connected', variant: 'success' },
  'paused-credentials': { name: 'Paused: the credentials are rejected', variant: 'danger' },
  'paused-permission': { name: 'Paused: the account has no permission', variant: 'danger' },
  'paused-identity': { name: 'Paused: another organization', variant: 'danger' },
  'paused-person': { name: 'Paused: another machine', variant: 'danger' },
};

/**
 * The name and severity of the relay's state. Without a connection, there is no warning before the
 * first attempt.
 */
export const relayStatus = ({ state, problem }: Pick<AmsStatus, 'state' | 'problem'>) =>
  state === 'offline' && !problem
    ? ({ name: 'Not connected: there are no pending changes', variant: 'info' } as const)
    : relayStates[state];

const names: [keyof Fields, string][] = [
  ['display_name', 'name'],
  ['external_cluster_id', "cluster's own id"],
  ['console_url', "console's URL"],
];

/** Formats fields for the user: "name one, console's URL https://…". */
export const describeFields = (fields: Fields): string =>
  names.flatMap(([key, name]) => (fields[key] ? [`${name} ${fields[key]}`] : [])).join(', ');

/** The data that AMS has confirmed for a cluster. */
export const confirmedText = ({ ams_status: status, told }: ClusterLine): string => {
  const fields = describeFields(told);
  if (!status && !fields) {
    return 'Nothing';
  }
  return [status, fields].filter(Boolean).join(': ');
};

/** The pending changes of a cluster; "" if there are none. */
export const pendingText = ({
  state,
  to_become: become,
  to_tell: fields,
  ams_status: status,
  deleted,
}: ClusterLine): string => {
  if (state === 'sent' || state === 'left') {
    return '';
  }
  if (become === 'absent') {
    return 'the deletion';
  }
  const parts = [describeFields(fields)];
  if (become === 'active' && status !== 'Active' && status !== 'Disconnected') {
    parts.push('the end of the installation');
  }
  if (deleted) {
    parts.push('and no later changes, because the cluster was deleted here');
  }
  return parts.filter(Boolean).join(', ') || 'a change that was reverted';
};

/** The remedy for a cluster that needs attention; "" for others. */
export const remedy = ({ state, kind, http, ams_status: status }: ClusterLine): string => {
  if (state !== 'attention') {
    return '';
  }
  if (http === 409) {
    return (
      'Ask the owner of the cluster in OpenShift Cluster Manager to delete it there, then try again; ' +
      'or drop it.'
    );
  }
  if (http === 403) {
    return 'Grant the permission to the account, or log in with another account, then try again.';
  }
  if (kind === 'dead') {
    return 'Edit the values to send, or try again; a change of the cluster is sent automatically.';
  }
  if (kind === 'blocked') {
    return 'Check the subscription in OpenShift Cluster Manager, then try again, or drop it.';
  }
  return status === 'Active' || status === 'Disconnected'
    ? 'Create it again, try again, or drop it.'
    : 'Solve the problem in OpenShift Cluster Manager and try again, or drop it.';
};

/** The fingerprint in the appliance's error about an untrusted key; "" if there is none. */
export const fingerprintIn = (sentence: string): string => /SHA256:[A-Za-z0-9+/]{43}/.exec(sentence)?.[0] ?? '';

/** The action that helps most in a state of the relay. */
export const firstAction = (state: RelayState): 'login' | 'accept' | 'connect' => {
  switch (state) {
    case 'no-credentials':
    case 'paused-credentials':
    case 'paused-permission':
      return 'login';
    case 'paused-identity':
    case 'paused-person':
      return 'accept';
    default:
      return 'connect';
  }
};
