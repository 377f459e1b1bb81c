import type { Session, Exchange, InfraEnv, Server, State } from './api';

/** The name of each state of a server, and the color of its label. */
export const states: Record<State, { name: string; color: 'blue' | 'green' | 'grey' | 'orange' }> = {
  registering: { name: 'Registering', color: 'blue' },
  available: { name: 'Available', color: 'grey' },
  provisioning: { name: 'Booting', color: 'blue' },
  provisioned: { name: 'Booted', color: 'green' },
  deprovisioning: { name: 'Detaching', color: 'orange' },
  deleting: { name: 'Being removed', color: 'orange' },
};

const powers = { '': 'Unknown', on: 'On', off: 'Off', 'powering-on': 'Powering on', 'powering-off': 'Powering off' };

export const powerOf = ({ power }: Server): string => powers[power];

const actions: Record<string, string> = {
  boot: 'boot',
  on: 'power on',
  off: 'power off',
  soft: 'shut down',
  reset: 'restart',
  eject: 'eject',
  inspect: 'query the BMC',
};

/** The current or pending activity; "" if there is none. */
export const activityOf = ({ doing: sentence, pending }: Server): string =>
  sentence ?? (pending ? `Pending: ${actions[pending.kind] ?? pending.kind}.` : '');

/** The content of the virtual drive: the image's infra-env, or the image's file. */
export const mediaOf = ({ media, infra_env_id: id }: Server, infraEnvs: InfraEnv[]): string => {
  if (!media?.inserted) {
    return 'Empty';
  }
  const name = infraEnvs.find((infraEnv) => infraEnv.id === id)?.name;
  return name ? `Image of ${name}` : (media.image?.split('/').at(-1) ?? 'Inserted');
};

/** The manufacturer and the model, without repeating the manufacturer's name. */
export const modelOf = ({ system }: Server): string => {
  const { manufacturer = '', model = '' } = system ?? {};
  return model.startsWith(manufacturer) ? model : [manufacturer, model].filter(Boolean).join(' ');
};

/** Reports whether a state will change soon, so that the page polls more often. */
export const isMoving = (server: Server): boolean =>
  server.pending !== undefined ||
  ['registering', 'provisioning', 'deprovisioning', 'deleting'].includes(server.state) ||
  server.power.startsWith('powering');

/** The code of an error and its number of occurrences. */
export const factsOf = ({ code, count }: NonNullable<Server['error']>): string =>
  [code, count > 1 && `${String(count)} times`].filter(Boolean).join(', ');

/** The summary of a session in one line. */
export const titleOf = ({ about, exchanges, left_out: left = 0, repeated = 0, outcome }: Session): string => {
  const count = exchanges.length + left;
  const again = repeated > 0 ? `, ${String(repeated + 1)} times` : '';
  return `${about}: ${String(count)} ${count === 1 ? 'request' : 'requests'}${again}${outcome ? `. ${outcome}` : ''}`;
};

/** A request and its response as text. */
export const transcript = (e: Exchange): string =>
  [
    `${e.method} ${e.path}`,
    ...(e.headers ?? []),
    ...(e.request ? ['', e.request] : []),
    '',
    e.status
      ? `Response ${String(e.status)} after ${String(Math.round(e.took_ns / 1e6))} ms`
      : `No response: ${e.error ?? ''}`,
    ...(e.answer_headers ?? []),
    ...(e.answer ? ['', e.answer] : []),
  ].join('\n');

/** The columns of an imported table of servers. */
export const columns = 'name,address,username,password,boot_mac,infra_env,skip_verify';
