import { checkName, checksOf } from '../hosts/details';
import { asSentence } from '../shell/quantities';
import type { Readiness } from './api';

/** A reason why a cluster cannot be installed yet. */
export type Blocker = {
  key: string;
  text: string;
  /** The name and the page of the host; absent for the cluster's own checks. */
  name?: string;
  path?: string;
  /** The group of the cluster's check. */
  group?: string;
};

/** Checks of a cluster that repeat the failed checks of its hosts, if hosts have such checks. */
const ofHosts = ['all-hosts-are-ready-to-install'];

/** What blocks the installation of a cluster: its own failed checks, then those of its hosts. */
export const blockersOf = ({ details, hosts }: Readiness): Blocker[] => {
  const failing = hosts.filter(({ failing: count }) => (count ?? 0) > 0);
  const { id: clusterId, validations_info: info = '' } = details;
  const repeated = failing.length > 0 ? ofHosts : [];
  const own = checksOf({ id: clusterId, validations_info: info })
    .filter(({ id, status }) => ['failure', 'error'].includes(status) && !repeated.includes(id))
    .map(({ id, group, message }) => ({ key: id, group, text: asSentence(message || checkName(id)) }));
  const theirs = failing.map(({ id, infra_env_id: infraEnv, name, first_failing: first, failing: count = 0 }) => ({
    key: id,
    name,
    path: `/hosts/${infraEnv}/${id}`,
    text: `${asSentence(first ?? '')}${count > 1 ? ` ${String(count - 1)} more.` : ''}`,
  }));
  return [...own, ...theirs];
};

/** The names of the infra-envs whose image has no SSH key. */
export const withoutKey = ({ infraEnvs }: Readiness): string[] =>
  infraEnvs.filter(({ ssh_authorized_key: key }) => !key).map(({ name }) => name);

/** The sentence about the readiness of a cluster. */
export const verdictOf = (isReady: boolean, blockers: Blocker[]): string => {
  if (isReady) {
    return 'The cluster is ready to be installed.';
  }
  switch (blockers.length) {
    case 0:
      return 'The cluster is not ready to be installed yet.';
    case 1:
      return '1 thing blocks the installation.';
    default:
      return `${String(blockers.length)} things block the installation.`;
  }
};
