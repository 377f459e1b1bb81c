import type { HostConfig } from './api';
import type { Described } from './hosts';

export type Draft = {
  hosts: Described[];
  /** The saved networks that the draft began with. */
  base: HostConfig[];
};

/**
 * The unsaved networks of each infra-env. They are only in memory, because a description may hold
 * secrets, such as the password of a key for 802.1X: a logout or a new load of the page forgets
 * them, and nothing remains in the browser's storage.
 */
const drafts = new Map<string, Draft>();

export const readDraft = (infraEnvId: string): Draft | undefined => drafts.get(infraEnvId);

/** Keeps unsaved networks until they are saved or discarded, also when another page is opened. */
export const keepDraft = (infraEnvId: string, draft: Draft): void => {
  drafts.set(infraEnvId, draft);
};

export const forgetDraft = (infraEnvId: string): void => {
  drafts.delete(infraEnvId);
};

/**
 * The networks that this page has sent last, also if the answer was lost or another page was open
 * when it came: they are nobody else's change.
 */
const sent = new Map<string, HostConfig[]>();

export const readSent = (infraEnvId: string): HostConfig[] | undefined => sent.get(infraEnvId);

export const keepSent = (infraEnvId: string, hosts: HostConfig[]): void => {
  sent.set(infraEnvId, hosts);
};
