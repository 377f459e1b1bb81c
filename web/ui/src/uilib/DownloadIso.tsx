import {
  Alert,
  Button,
  DescriptionList,
  ModalBody,
  ModalFooter,
  Stack,
  StackItem,
} from '@patternfly/react-core';
import DiscoveryInstructions from 'ui-lib/common/components/clusterConfiguration/DiscoveryInstructions';
import type { DownloadISOProps } from 'ui-lib/common/components/clusterConfiguration/DownloadIso';
import { getImageFacts, getSealedImage, type ImageFacts } from '../image/api';
import { PendingText, Copyable, Digest, Fact } from '../image/Copyable';
import { describeSize, downloadCommand, isBeingComputed, sameOrigin } from '../image/facts';
import { useShownInfraEnv } from './shownInfraEnv';

/**
 * The last page of the discovery ISO dialog. The library's page shows the address only; this one
 * adds the kind, size and SHA-256 of the image, a command that resumes and verifies the download,
 * and the short address for virtual media.
 */
const DownloadIso = ({ fileName = 'discovery.iso', downloadUrl, onClose, onReset, isSNO }: DownloadISOProps) => {
  const { answer: facts } = useShownInfraEnv(getImageFacts, whileComputing);
  const { answer: seal } = useShownInfraEnv(getSealedImage, once);
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
                <span data-testid="iso-size">{facts ? describeSize(facts) : <PendingText />}</span>
              </Fact>
              <Fact term="SHA-256">
                <Digest sha256={facts?.sha256} testId="iso-sha256" />
              </Fact>
              {facts?.short_url && (
                <Fact term="Short address, for virtual media">
                  <Copyable label="Short address">{facts.short_url}</Copyable>
                </Fact>
              )}
              <Fact term="Address">
                <Copyable label="Address">{url}</Copyable>
              </Fact>
              <Fact term="Shell command that resumes an interrupted download">
                <Copyable label="Shell command">{downloadCommand(name, url, facts?.sha256)}</Copyable>
              </Fact>
            </DescriptionList>
          </StackItem>
          <StackItem>
            <Alert
              isInline
              variant="info"
              title={
                seal?.sealed
                  ? 'The ISO is sealed: it contains a token, and neither the pull secret nor the config.'
                  : 'The ISO contains the pull secret. Give the ISO only to people who may have the pull secret.'
              }
            />
          </StackItem>
        </Stack>
      </ModalBody>
      <ModalFooter>
        <Button
          component="a"
          href={sameOrigin(url, window.location.origin)}
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

const once = () => undefined;
const whileComputing = (facts: ImageFacts | undefined) => (isBeingComputed(facts) ? 1_000 : undefined);
