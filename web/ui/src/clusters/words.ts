import type { Failure, Progress, Stage, State } from './api';

type Tone = 'success' | 'info' | 'warning' | 'danger' | undefined;

const installing = ['preparing-for-installation', 'installing', 'installing-pending-user-action', 'finalizing'];

/** Whether a cluster in this state is being installed. */
export const isInstalling = (status: string): boolean => installing.includes(status);

/** Whether the page of the installation shows a cluster in this state, and not the wizard. */
export const hasInstallation = (status: string): boolean =>
  isInstalling(status) || ['installed', 'error', 'cancelled'].includes(status);

/** Whether a host or an optional operator has failed: a cluster can be installed without them. */
export const hasFailedPart = ({ hosts, operators }: Pick<Progress, 'hosts' | 'operators'>): boolean =>
  hosts.some(({ status }) => status === 'error') ||
  operators.some(({ builtin, status }) => !builtin && status === 'failed');

export const stateNames: Record<State, string> = {
  waiting: 'Not begun',
  running: 'Running',
  done: 'Done',
  failed: 'Failed',
  stopped: 'Stopped',
  blocked: 'Needs a person',
};

export const toneOf = (state: State): Tone => {
  switch (state) {
    case 'done':
      return 'success';
    case 'failed':
      return 'danger';
    case 'blocked':
      return 'warning';
    case 'running':
      return 'info';
    default:
      return undefined;
  }
};

const roles: Record<string, string> = {
  bootstrap: 'Control plane, bootstrap',
  master: 'Control plane',
  worker: 'Worker',
  arbiter: 'Arbiter',
};

export const roleName = (role: string): string => roles[role] ?? role;

/** The stage of a host that runs, has failed, or was stopped last. */
export const currentStage = (stages: readonly Stage[]): Stage | undefined =>
  stages.findLast(({ state }) => state !== 'waiting' && state !== 'done') ??
  stages.findLast(({ state }) => state === 'done');

/** The page that helps with a step of the advice; undefined if none does. */
export const helpPath = ({ cause }: Failure, page: string | undefined): string | undefined => {
  switch (page) {
    case 'host':
      return cause.kind === 'host' && cause.id ? `/hosts/${cause.infra_env_id ?? ''}/${cause.id}` : '/hosts';
    case 'missing':
      return '/hosts/missing';
    case 'mirror':
    case 'doctor':
    case 'servers':
      return `/${page}`;
    default:
      return undefined;
  }
};

const helpNames: Record<string, string> = {
  host: 'Show the host',
  missing: 'Why is my host not here?',
  mirror: 'Open Mirror',
  doctor: 'Open Doctor',
  servers: 'Open Servers',
};

export const helpName = (page: string): string => helpNames[page] ?? page;
