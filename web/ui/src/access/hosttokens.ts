import { getJSON, request } from '../shell/request';

/** A host that is named because its token, or the lack of one, matters. */
export type HostOfToken = { id: string; infra_env_id: string; name: string; status: string };

/** The tokens of an infra-env's hosts. */
export type AgentTokens = {
  infra_env_id: string;
  name: string;
  tokens_since: string | null;
  renewed_at: string | null;
  previous_until: string | null;
  tokenless_until: string | null;
  tokenless_hosts: HostOfToken[] | null;
};

const infraEnvs = '/api/landfall/v1/infra-envs';

export const listAgentTokens = async (signal?: AbortSignal): Promise<AgentTokens[]> => {
  const known = await getJSON<{ id: string }[]>('/api/assisted-install/v2/infra-envs', signal);
  return Promise.all(known.map(({ id }) => getJSON<AgentTokens>(`${infraEnvs}/${id}/agent-tokens`, signal)));
};

const change = async (id: string, what: string, seconds?: number): Promise<HostOfToken[]> => {
  const response = await request('POST', `${infraEnvs}/${id}/agent-tokens/${what}`, {
    json: seconds === undefined ? {} : { seconds },
  });
  return ((await response.json()) as { hosts?: HostOfToken[] | null }).hosts ?? [];
};

/** Renews the token; the previous one stays valid for a day. Returns the hosts that have it. */
export const renewTokens = (id: string) => change(id, 'renew', 86_400);

/** Revokes all tokens. Returns the hosts that need a new image. */
export const revokeTokens = (id: string) => change(id, 'revoke');

export const acceptTokenless = (id: string, seconds: number) => change(id, 'accept-none', seconds);
