import {
  Alert,
  Button,
  ClipboardCopy,
  DescriptionList,
  DescriptionListDescription,
  DescriptionListGroup,
  DescriptionListTerm,
  ModalBody,
  ModalFooter,
  Spinner,
  Stack,
  StackItem,
} from '@patternfly/react-core';
import { InfraEnvsService } from '@openshift-assisted/ui-lib/ocm';
import { CpuArchitecture } from 'ui-lib/common/types/cpuArchitecture';
import DiscoveryInstructions from 'ui-lib/common/components/clusterConfiguration/DiscoveryInstructions';
import type { DownloadISOProps } from 'ui-lib/common/components/clusterConfiguration/DownloadIso';
import { useCallback, type ReactNode } from 'react';
import { describeSize, downloadCommand, isBeingComputed } from '../image/facts';
import { shownPage } from '../live/page';
import { getImageFacts, type ImageFacts } from '../shell/appliance';
import { useRepeated } from '../shell/useRepeated';

/**
 * The last page of the discovery ISO dialog: the library's one shows the address alone; here a person also sees what
 * will be downloaded (kind, size, SHA-256) and how to check and resume it.
 */
const DownloadIso = ({ fileName = 'discovery.iso', downloadUrl, onClose, onReset, isSNO }: DownloadISOProps) => {
  const facts = useImageFacts(downloadUrl);
  const url = facts?.url ?? downloadUrl;
  const name = facts?.file_name ?? fileName;
  return (
    <>
      <ModalBody>
        <Stack hasGutter>
          <StackItem>
            <Alert isInline variant="success" title="The discovery ISO is ready">
              <DiscoveryInstructions isSNO={isSNO} />
            </Alert>
          </StackItem>
          <StackItem>
            <DescriptionList isCompact aria-label="The discovery ISO">
              <Fact term="Size">
                <span data-testid="iso-size">{facts ? describeSize(facts) : <Asking />}</span>
              </Fact>
              <Fact term="SHA-256">
                <Digest facts={facts} />
              </Fact>
              <Fact term="Address">
                <Copyable>{url}</Copyable>
              </Fact>
              <Fact term="Download from a shell, going on where it broke off">
                <Copyable>{downloadCommand(name, url, facts?.sha256)}</Copyable>
              </Fact>
            </DescriptionList>
          </StackItem>
          <StackItem>
            <Alert
              isInline
              variant="info"
              title="The ISO holds the pull secret: give it to nobody who may not have that."
            />
          </StackItem>
        </Stack>
      </ModalBody>
      <ModalFooter>
        <Button
          component="a"
          href={url}
          download={name}
          isDisabled={!url}
          data-testid="download-iso-btn"
        >
          Download the discovery ISO
        </Button>
        <Button variant="secondary" onClick={onClose} data-testid="close-iso-btn">
          Close
        </Button>
        {onReset && (
          <Button variant="link" onClick={onReset} data-testid="edit-iso-btn">
            Edit the ISO&apos;s configuration
          </Button>
        )}
      </ModalFooter>
    </>
  );
};

export default DownloadIso;

const useImageFacts = (downloadUrl: string): ImageFacts | undefined => {
  const ask = useCallback(
    async (signal: AbortSignal) => {
      const page = shownPage(window.location.pathname);
      if (page.name !== 'cluster' || !downloadUrl) {
        throw new Error('The page shows no cluster.');
      }
      const id = await InfraEnvsService.getInfraEnvId(
        page.clusterId,
        CpuArchitecture.USE_DAY1_ARCHITECTURE,
      );
      if (typeof id !== 'string') {
        throw id;
      }
      return getImageFacts(id, signal);
    },
    [downloadUrl],
  );
  return useRepeated(ask, isBeingComputed, 1_000);
};

const Digest = ({ facts }: { facts: ImageFacts | undefined }) =>
  facts?.sha256 ? (
    <span data-testid="iso-sha256">
      <ClipboardCopy variant="inline-compact" isCode hoverTip="Copy" clickTip="Copied">
        {facts.sha256}
      </ClipboardCopy>
    </span>
  ) : (
    <Asking>being computed</Asking>
  );

const Asking = ({ children }: { children?: ReactNode }) => (
  <>
    <Spinner size="sm" aria-hidden /> {children}
  </>
);

const Copyable = ({ children }: { children: string }) => (
  <ClipboardCopy isReadOnly hoverTip="Copy" clickTip="Copied">
    {children}
  </ClipboardCopy>
);

const Fact = ({ term, children }: { term: string; children: ReactNode }) => (
  <DescriptionListGroup>
    <DescriptionListTerm>{term}</DescriptionListTerm>
    <DescriptionListDescription>{children}</DescriptionListDescription>
  </DescriptionListGroup>
);
