import type { HostRow } from '../hosts/api';
import type { Readiness } from './api';

/** A control-plane host, and the address of the BMC that powers it off; '' if there is none. */
export type FencedHost = { row: HostRow; bmc: string };

export type FencingState = { title: string; advice: string; isComplete: boolean; hosts: FencedHost[] };

/** How a cluster with two control-plane nodes keeps its quorum; undefined for other clusters. */
export const fencingOf = ({ details, hosts }: Readiness): FencingState | undefined => {
  if (details.control_plane_count !== 2) {
    return undefined;
  }
  const arbiter = hosts.find(({ role }) => role === 'arbiter');
  if (arbiter) {
    const title = `${arbiter.name} is the arbiter of the two control-plane nodes.`;
    return { title, advice: '', isComplete: true, hosts: [] };
  }
  const fenced = hosts
    .filter(({ role, suggested_role: suggested }) => (role === 'auto-assign' ? suggested : role) !== 'worker')
    .map((row) => ({ row, bmc: addressIn(details.hosts?.find(({ id }) => id === row.id)?.fencing_credentials) }));
  if (fenced.length === 2 && fenced.every(({ bmc }) => bmc !== '')) {
    const title = 'Each of the two control-plane nodes can power the other off.';
    return { title, advice: '', isComplete: true, hosts: fenced };
  }
  return {
    title: 'Two control-plane nodes need an arbiter or fencing.',
    advice: 'Give a third host the role Arbiter, or set the credentials of the BMCs of both nodes.',
    isComplete: false,
    hosts: fenced,
  };
};

const addressIn = (credentials = ''): string =>
  credentials ? ((JSON.parse(credentials) as { address?: string }).address ?? '') : '';
