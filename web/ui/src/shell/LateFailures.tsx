import { Alert, AlertActionCloseButton, AlertGroup } from '@patternfly/react-core';
import { useEffect, useState } from 'react';
import { lateFailureEvent, type LateFailure } from './lateFailure';

/** Shows on any page why the requests of closed dialogs failed. */
export const LateFailures = () => {
  const [failures, setFailures] = useState<LateFailure[]>([]);
  useEffect(() => {
    const add = (event: Event) => {
      const failure = (event as CustomEvent<LateFailure>).detail;
      setFailures((earlier) => [...earlier, failure]);
    };
    window.addEventListener(lateFailureEvent, add);
    return () => {
      window.removeEventListener(lateFailureEvent, add);
    };
  }, []);
  return (
    <AlertGroup isToast isLiveRegion aria-label="Failed requests of closed dialogs">
      {failures.map((failure, place) => (
        <Alert
          key={place}
          variant="danger"
          title={failure.dialog}
          data-testid="late-failure"
          actionClose={
            <AlertActionCloseButton
              onClose={() => {
                setFailures((all) => all.filter((one) => one !== failure));
              }}
            />
          }
        >
          {failure.sentence}
        </Alert>
      ))}
    </AlertGroup>
  );
};
