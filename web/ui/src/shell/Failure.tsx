import { Alert } from '@patternfly/react-core';
import { useEffect, useRef } from 'react';

/** The error of a person's last action; nothing if it is ''. A new one scrolls into the view. */
export const Failure = ({ text }: { text: string }) => {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    place.current?.scrollIntoView({ block: 'nearest' });
  }, [text]);
  return text === '' ? null : (
    <div ref={place} role="alert">
      <Alert isInline variant="danger" title={text} data-testid="failure" />
    </div>
  );
};
