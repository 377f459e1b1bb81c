import { useCallback } from 'react';
import { useAnswer } from '../shell/useAnswer';
import { listScopeNames } from './api';

const once = () => undefined;

type Props = { of: { clusters?: string[]; infra_envs?: string[] } };

/** The clusters and infra-envs to which an account or a token is limited. */
export const Scope = ({ of: { clusters = [], infra_envs: infraEnvs = [] } }: Props) => {
  const isLimited = clusters.length + infraEnvs.length > 0;
  const load = useCallback(
    (signal: AbortSignal) => (isLimited ? listScopeNames(signal) : Promise.resolve(new Map<string, string>())),
    [isLimited],
  );
  const { answer: names } = useAnswer(load, once);
  if (!isLimited) {
    return 'everything';
  }
  const list = (kind: string, ids: string[]) => ids.map((id) => `${kind} ${names?.get(id) ?? id}`);
  return [...list('cluster', clusters), ...list('infra-env', infraEnvs)].join(', ');
};
