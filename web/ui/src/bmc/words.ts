import type { Conversation, Exchange, InfraEnv, Server, State } from './api';

/** How a server's state is called, and the colour of its label. */
export const states: Record<State, { name: string; color: 'blue' | 'green' | 'grey' | 'orange' }> = {
  registering: { name: 'Registering', color: 'blue' },
  available: { name: 'Available', color: 'grey' },
  provisioning: { name: 'Booting', color: 'blue' },
  provisioned: { name: 'Booted', color: 'green' },
  deprovisioning: { name: 'Letting go', color: 'orange' },
  deleting: { name: 'Being removed', color: 'orange' },
};

const powers = { '': 'Unknown', on: 'On', off: 'Off', 'powering-on': 'Going on', 'powering-off': 'Going off' };

export const powerOf = ({ power }: Server): string => powers[power];

const orders: Record<string, string> = {
  boot: 'boot',
  on: 'power on',
  off: 'power off',
  soft: 'shut down',
  reset: 'restart',
  eject: 'eject',
  inspect: 'ask again',
};

/** What goes on or is waited for; "" when nothing is. */
export const doing = ({ doing: sentence, pending }: Server): string =>
  sentence ?? (pending ? `Ordered: ${orders[pending.kind] ?? pending.kind}.` : '');

/** What is in the virtual drive: the infra-env of the image, or the image's file. */
export const mediaOf = ({ media, infra_env_id: id }: Server, infraEnvs: InfraEnv[]): string => {
  if (!media?.inserted) {
    return 'Empty';
  }
  const name = infraEnvs.find((infraEnv) => infraEnv.id === id)?.name;
  return name ? `Image of ${name}` : (media.image?.split('/').at(-1) ?? 'Inserted');
};

/** The maker's name once, before the model. */
export const modelOf = ({ system }: Server): string => {
  const { manufacturer = '', model = '' } = system ?? {};
  return model.startsWith(manufacturer) ? model : [manufacturer, model].filter(Boolean).join(' ');
};

/** Whether something moves, so that the page looks more often. */
export const isMoving = (server: Server): boolean =>
  server.pending !== undefined ||
  ['registering', 'provisioning', 'deprovisioning', 'deleting'].includes(server.state) ||
  server.power.startsWith('powering');

/** What is known of an error beside its sentence: its code, and how often it came. */
export const factsOf = ({ code, count }: NonNullable<Server['error']>): string =>
  [code, count > 1 && `${String(count)} times`].filter(Boolean).join(', ');

/** A conversation in a line. */
export const titleOf = ({ about, exchanges, left_out: left = 0, repeated = 0, outcome }: Conversation): string => {
  const count = exchanges.length + left;
  const again = repeated > 0 ? `, ${String(repeated + 1)} times` : '';
  return `${about}: ${String(count)} ${count === 1 ? 'request' : 'requests'}${again}${outcome ? `. ${outcome}` : ''}`;
};

/** What was said and answered, as text. */
export const transcript = (e: Exchange): string =>
  [
    `${e.method} ${e.path}`,
    ...(e.headers ?? []),
    ...(e.request ? ['', e.request] : []),
    '',
    e.status ? `Answer ${String(e.status)} after ${String(Math.round(e.took_ns / 1e6))} ms` : `No answer: ${e.error ?? ''}`,
    ...(e.answer_headers ?? []),
    ...(e.answer ? ['', e.answer] : []),
  ].join('\n');

/** The columns of a table of servers that is pasted. */
export const columns = 'name,address,username,password,boot_mac,infra_env,skip_verify';
