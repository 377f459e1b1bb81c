import { ClipboardCopyButton } from '@patternfly/react-core';
import { useState } from 'react';

/** A button that copies a text. Its children are its name. */
export const CopyButton = ({ id, text, children }: { id: string; text: string; children: string }) => {
  const [isCopied, setCopied] = useState(false);
  return (
    <ClipboardCopyButton
      id={id}
      textId={`${id}-text`}
      aria-label={children}
      variant="plain"
      exitDelay={isCopied ? 1_500 : 600}
      onTooltipHidden={() => {
        setCopied(false);
      }}
      onClick={() => {
        navigator.clipboard.writeText(text).then(
          () => {
            setCopied(true);
          },
          () => undefined,
        );
      }}
    >
      {isCopied ? 'Copied' : children}
    </ClipboardCopyButton>
  );
};
