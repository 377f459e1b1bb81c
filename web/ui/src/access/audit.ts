import { asSentence } from '../shell/quantities';
import { getJSON } from '../shell/request';

/** One record of the audit trail. */
export type Item = {
  seq: number;
  time: string;
  kind: string;
  actor?: { kind?: string; name?: string; role?: string; address?: string };
  operation?: string;
  method?: string;
  path?: string;
  secret?: boolean;
  status?: number;
  text?: string;
  repeated?: number;
  outcome?: string;
};

/** A part of a file of the trail that can't be read: the bytes from one to before another. */
export type Unread = { file: string; from: number; to: number; reason: string };

export type AuditPage = { items: Item[]; next?: number; unread?: Unread[] };

/** Returns a sentence that names an unread part. */
export const unreadOf = ({ file, from, to, reason }: Unread): string =>
  `The bytes ${String(from)} to ${String(to - 1)} of ${file} can't be read (${reason}).`;

export type Report = {
  first: number;
  last: { seq: number; hash: string };
  records: number;
  keys: string[];
  notes?: string[];
  problems?: string[];
};

/** What the list shows. Empty fields select everything, in the trail of the member that leads. */
export type Filter = { member: string; person: string; operation: string; since: string; until: string };

export const auditURL = '/api/landfall/v1/audit';

/** The query of a page of the list: its items before a number, 0 for the newest. */
export const queryOf = (filter: Filter, before: number, limit: number): string => {
  const query = new URLSearchParams({ limit: String(limit) });
  if (before > 0) {
    query.set('before', String(before));
  }
  for (const name of ['member', 'person', 'operation'] as const) {
    if (filter[name].trim() !== '') {
      query.set(name, filter[name].trim());
    }
  }
  for (const name of ['since', 'until'] as const) {
    const at = new Date(filter[name]);
    if (filter[name] !== '' && !Number.isNaN(at.getTime())) {
      query.set(name, at.toISOString());
    }
  }
  return query.toString();
};

export const listAudit = (filter: Filter, before: number, limit: number, signal?: AbortSignal) =>
  getJSON<AuditPage>(`${auditURL}?${queryOf(filter, before, limit)}`, signal);

/** The query that selects the trail of a member of a fleet; '' is the one that leads. */
const ofMember = (member: string) => (member === '' ? '' : `?${new URLSearchParams({ member }).toString()}`);

export const verifyAudit = (member: string) => getJSON<Report>(`${auditURL}/verify${ofMember(member)}`);

export const exportURL = (member: string) => `${auditURL}/export${ofMember(member)}`;

const kinds: Record<string, string> = {
  opened: 'The appliance started',
  closed: 'The appliance stopped',
  continued: 'A further file of the trail began',
  removed: 'Old records were removed, because the trail has a limit of space',
  shortened: 'Newer records are missing',
};

/** What a record is about: an operation, another request, or an event of the trail. */
export const subjectOf = ({ kind, operation, method, path, text }: Item): string =>
  operation ?? (method ? `${method} ${path ?? ''}` : (text ?? kinds[kind] ?? kind));

/** Why the request of a record was refused; '' if the record does not say it. */
export const reasonOf = ({ operation, method, text = '' }: Item): string =>
  operation !== undefined || method ? asSentence(text) : '';

/** The name of the person or program, or the kind of a caller without a name. */
export const actorOf = ({ actor, operation }: Item): string =>
  // eslint-disable-next-line @typescript-eslint/prefer-nullish-coalescing -- both may be empty
  actor?.name || actor?.kind || (operation ? 'nobody' : 'the appliance');

/** The outcome of a record, and whether it is a refusal or a failure. */
export const outcomeOf = ({ kind, status, outcome, repeated }: Item): { text: string; isBad: boolean } => {
  const more = repeated ? `, and ${String(repeated)} more` : '';
  if (kind === 'refused') {
    return { text: `refused (${String(status ?? '')})${more}`, isBad: true };
  }
  const failed = status !== undefined && status >= 400;
  return {
    text: `${outcome ?? (failed ? 'failed' : 'done')}${status ? ` (${String(status)})` : ''}${more}`,
    isBad: failed,
  };
};
