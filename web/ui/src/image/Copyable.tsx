import {
  ClipboardCopy,
  DescriptionListDescription,
  DescriptionListGroup,
  DescriptionListTerm,
  Spinner,
} from '@patternfly/react-core';
import type { ReactNode } from 'react';
import { QRButton, isURL } from '../shell/QRButton';

/** A text with a copy button; a URL also with a button for its QR code. */
export const Copyable = ({ label, children }: { label: string; children: string }) => (
  <div className="landfall-copyable">
    <ClipboardCopy isReadOnly hoverTip={`Copy: ${label}`} clickTip="Copied" textAriaLabel={label}>
      {children}
    </ClipboardCopy>
    {isURL(children) && <QRButton label={label} url={children} />}
  </div>
);

/** A SHA-256, or a note that it is being computed. */
export const Digest = ({ sha256, testId }: { sha256: string | undefined; testId?: string }) =>
  sha256 ? (
    <span className="landfall-digest" data-testid={testId}>
      <ClipboardCopy variant="inline-compact" isCode hoverTip="Copy the SHA-256" clickTip="Copied">
        {sha256}
      </ClipboardCopy>
    </span>
  ) : (
    <PendingText>being computed</PendingText>
  );

/** A spinner with a text while a request is pending. */
export const PendingText = ({ children }: { children?: ReactNode }) => (
  <>
    <Spinner size="sm" aria-hidden /> {children}
  </>
);

/** One entry of a description list. */
export const Fact = ({ term, children }: { term: string; children: ReactNode }) => (
  <DescriptionListGroup>
    <DescriptionListTerm>{term}</DescriptionListTerm>
    <DescriptionListDescription>{children}</DescriptionListDescription>
  </DescriptionListGroup>
);
