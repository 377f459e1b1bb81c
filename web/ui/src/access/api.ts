import { getJSON, request } from '../shell/request';
import { askForPasskey, type Options } from './passkey';

export type Role = 'viewer' | 'operator' | 'admin';

export const roles: Role[] = ['viewer', 'operator', 'admin'];

export const roleNames: Record<Role, string> = { viewer: 'viewer', operator: 'operator', admin: 'administrator' };

/** How people log in at this appliance. */
export type LoginMethods = {
  auth: 'local' | 'none';
  /** There is no account yet: the setup code makes the first administrator. */
  setup: boolean;
  /** People can also log in with the site's OpenID Connect provider. */
  oidc?: boolean;
  /** The fingerprint of the appliance's certificate authority. */
  fingerprint?: string;
};

/** The person at the page. */
export type Caller = { kind: string; name: string; role: Role; clusters?: string[]; infra_envs?: string[] };

export type User = {
  name: string;
  role: Role;
  clusters?: string[];
  infra_envs?: string[];
  disabled?: boolean;
  issuer?: string;
  created_at: string;
  last_login?: string;
};

export type Token = {
  id: string;
  name: string;
  role: Role;
  clusters?: string[];
  infra_envs?: string[];
  created_by?: string;
  created_at: string;
  expires_at?: string;
  last_use?: string;
  /** Only in the response to the creation. */
  token?: string;
};

export type Session = {
  id: string;
  name: string;
  address: string;
  user_agent?: string;
  last_use: string;
  expires_at: string;
  current?: boolean;
};

const base = '/api/landfall/v1';

const at = (kind: string, name: string) => `${base}/${kind}/${encodeURIComponent(name)}`;

export const readMethods = () => getJSON<LoginMethods>(`${base}/login`);

export const whoami = () => getJSON<Caller>(`${base}/whoami`);

/** Logs in. An account with passkeys must use one after the password. */
export const logIn = async (name: string, password: string): Promise<Caller> => {
  const response = await request('POST', `${base}/login`, { json: { name, password } });
  const answer = (await response.json()) as Caller | { passkey: Options };
  if (!('passkey' in answer)) {
    return answer;
  }
  const used = await request('POST', `${base}/login/passkey`, {
    json: { name, answer: await askForPasskey(answer.passkey) },
  });
  return (await used.json()) as Caller;
};

export const setUp = async (code: string, name: string, password: string) =>
  (await (await request('POST', `${base}/setup`, { json: { code, name, password } })).json()) as Caller;

export const logOut = () => request('POST', `${base}/logout`);

export const listUsers = (signal?: AbortSignal) => getJSON<User[]>(`${base}/users`, signal);

export const createUser = (user: { name: string; password: string; role: Role }) =>
  request('POST', `${base}/users`, { json: user });

export const updateUser = (name: string, change: { role?: Role; disabled?: boolean }) =>
  request('PATCH', at('users', name), { json: change });

export const deleteUser = (name: string) => request('DELETE', at('users', name));

export const setPassword = (name: string, password: string, old = '') =>
  request('PUT', `${at('users', name)}/password`, { json: { new: password, ...(old && { old }) } });

/** The names of all clusters and infra-envs by ID. */
export const listScopeNames = async (signal?: AbortSignal): Promise<Map<string, string>> => {
  const lists = await Promise.all(
    ['clusters', 'infra-envs'].map((kind) =>
      getJSON<{ id: string; name?: string }[]>(`/api/assisted-install/v2/${kind}`, signal),
    ),
  );
  return new Map(lists.flat().map(({ id, name }) => [id, name ?? id]));
};

export const listTokens = (signal?: AbortSignal) => getJSON<Token[]>(`${base}/tokens`, signal);

export const createToken = async (token: { name: string; role: Role; expires_at?: string }) =>
  (await (await request('POST', `${base}/tokens`, { json: token })).json()) as Token;

export const revokeToken = (name: string) => request('DELETE', at('tokens', name));

export const listSessions = (signal?: AbortSignal) => getJSON<Session[]>(`${base}/sessions`, signal);

export const endSession = (id: string) => request('DELETE', at('sessions', id));
