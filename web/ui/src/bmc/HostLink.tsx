import { useCallback } from 'react';
import { Link } from 'react-router-dom-v5-compat';
import { stateOf } from '../hosts/states';
import { ApplianceError } from '../shell/request';
import { useAnswer } from '../shell/useAnswer';
import { readHost } from './api';

const wait = () => 10_000;

/** A link from a server to the cluster of its host. */
export const HostLink = ({ infraEnvId, id }: { infraEnvId: string; id: string }) => {
  const load = useCallback((signal: AbortSignal) => readHost(infraEnvId, id, signal), [infraEnvId, id]);
  const { answer, error } = useAnswer(load, wait);
  if (error instanceof ApplianceError && error.status === 404) {
    return <span className="landfall-subtle">gone</span>;
  }
  if (!answer) {
    return null;
  }
  const name = answer.requested_hostname ?? id;
  return (
    <>
      {answer.cluster_id ? <Link to={`/assisted-installer/clusters/${answer.cluster_id}`}>{name}</Link> : name}
      {answer.status && <div className="landfall-subtle">{stateOf(answer.status).name}</div>}
    </>
  );
};
