import { Button } from '@patternfly/react-core';
import { useState } from 'react';
import { download } from '../shell/download';
import { request, sentenceOf } from '../shell/request';
import { logsUrl } from './api';

/** Downloads the logs of a cluster and its hosts; says why if there are none. */
export const LogsButton = ({ clusterId }: { clusterId: string }) => {
  const [failure, setFailure] = useState('');
  const [isAsking, setAsking] = useState(false);
  const ask = async () => {
    setAsking(true);
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
    setAsking(false);
  };
  return (
    <>
      <Button variant="secondary" isDisabled={isAsking} onClick={() => void ask()}>
        Download logs
      </Button>
      <span role="status">{failure}</span>
    </>
  );
};
