import { bytes, duration, moment } from '../shell/quantities';
import type { Tone } from '../shell/Toned';
import type { Fleet, Member, Server } from './api';

type Word = { text: string; tone: Tone };

/** The role of a member. */
export const roleOf = ({ role, problem }: Member): Word => {
  switch (role) {
    case 'away':
      return { text: 'Away', tone: 'danger' };
    case 'restoring':
      return { text: 'Takes a snapshot', tone: 'warning' };
    case 'leader':
      return { text: 'Leads', tone: problem ? 'warning' : 'success' };
    case 'follower':
      return { text: 'Follows', tone: problem ? 'warning' : 'success' };
  }
};

/** What a member lacks of the data. */
export const lacks = ({ role, seen, behind, lag_seconds: lag, ...member }: Member): string => {
  const missing = member.missing_contents + member.missing_live_isos + member.missing_blobs;
  const parts = [
    ...(role === 'away' && seen ? [`Last seen ${moment(seen)}`] : []),
    ...(behind > 0 ? [`${counted(behind, 'record')} behind, ${duration(lag)}`] : []),
    ...(missing > 0 ? [`${counted(missing, 'file')} not copied yet`] : []),
  ];
  return parts.length > 0 ? parts.join('; ') : 'Nothing';
};

/** The state of a server of etcd. */
export const stateOf = ({ problem, damaged, no_space: full, leader }: Server): Word => {
  if (problem) {
    return { text: 'Does not answer', tone: 'danger' };
  }
  if (damaged) {
    return { text: 'Databases differ', tone: 'danger' };
  }
  if (full) {
    return { text: 'No space', tone: 'danger' };
  }
  return { text: leader ? 'Answers, leads etcd' : 'Answers', tone: 'success' };
};

/** The size of a server's database. */
export const sizeOf = ({ problem, bytes: size, quota_bytes: quota }: Server): string => {
  if (problem) {
    return '';
  }
  return quota ? `${bytes(size)} of ${bytes(quota)}` : bytes(size);
};

/** Who leads since when. */
export const leads = ({ leading, since }: Fleet): string => {
  if (leading === '') {
    return 'No member leads.';
  }
  return since ? `${leading} leads since ${moment(since)}.` : `${leading} leads.`;
};

/** Whether the members run different versions. */
export const versionsDiffer = ({ members }: Fleet) => new Set(members.map(({ version }) => version)).size > 1;

const counted = (count: number, noun: string) => `${count.toLocaleString('en')} ${noun}${count === 1 ? '' : 's'}`;
