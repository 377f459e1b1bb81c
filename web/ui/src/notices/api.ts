import { getJSON, request } from '../shell/request';

export type Kind = 'installed' | 'failed' | 'attention' | 'test';

type Subject = { id: string; name: string };

/** What was installed, has failed or needs a person. */
export type Notice = {
  /** The ids sort by time. */
  id: string;
  kind: Kind;
  message: string;
  cluster?: Subject;
  host?: Subject;
  /** The page about the cluster or host. */
  url: string;
};

/** A program that receives the notifications. */
export type Webhook = {
  name: string;
  /** Without its path, which may be secret. */
  url: string;
  created_by: string;
  /** The notifications that it has not received yet. */
  pending: number;
  delivered_at?: string;
  /** A sentence if the last attempt failed. */
  problem?: string;
};

const root = '/api/landfall/v1';
const webhooks = `${root}/settings/webhooks`;

/** The newest notifications, the newest one first. */
export const readNotices = async (signal?: AbortSignal): Promise<Notice[]> =>
  (await getJSON<{ notifications: Notice[] }>(`${root}/notifications`, signal)).notifications;

export const readWebhooks = async (signal?: AbortSignal): Promise<Webhook[]> =>
  (await getJSON<{ webhooks: Webhook[] }>(webhooks, signal)).webhooks;

/** Adds a webhook and returns the secret that the appliance created; '' if `secret` is given. */
export const addWebhook = async (webhook: { name: string; url: string; secret: string }): Promise<string> => {
  const { secret, ...others } = webhook;
  const answer = await request('POST', webhooks, { json: { ...others, ...(secret !== '' && { secret }) } });
  return ((await answer.json()) as { secret?: string }).secret ?? '';
};

export const removeWebhook = (name: string) => request('DELETE', `${webhooks}/${encodeURIComponent(name)}`);

export const testWebhook = (name: string) => request('POST', `${webhooks}/${encodeURIComponent(name)}/test`);
