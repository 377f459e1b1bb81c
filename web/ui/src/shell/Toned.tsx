import { Label } from '@patternfly/react-core';

export type Tone = 'success' | 'info' | 'warning' | 'danger' | undefined;

/** A state in words, with its colour. */
export const Toned = ({ tone, text }: { tone: Tone; text: string }) =>
  tone ? (
    <Label isCompact status={tone}>
      {text}
    </Label>
  ) : (
    <>{text}</>
  );
