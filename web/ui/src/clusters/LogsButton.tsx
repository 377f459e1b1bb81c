import { useState } from 'react';
import { ActionButton } from '../shell/ActionButton';
import { download } from '../shell/download';
import { request, sentenceOf } from '../shell/request';
import { logsUrl } from './api';

/** Downloads the logs of a cluster and its hosts; says why if there are none. */
export const LogsButton = ({ clusterId }: { clusterId: string }) => {
  const [failure, setFailure] = useState('');
  const ask = async () => {
    setFailure('');
    const asked = new AbortController();
    try {
      // Only the answer's status is of interest here: the browser saves the file.
      await request('GET', logsUrl(clusterId), { signal: asked.signal });
      asked.abort();
      download(logsUrl(clusterId));
    } catch (error) {
      setFailure(sentenceOf(error));
    }
  };
  return (
    <>
      <ActionButton variant="secondary" onAct={ask}>
        Download logs
      </ActionButton>
      <span role="status">{failure}</span>
    </>
  );
};
