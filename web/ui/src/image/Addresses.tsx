import {
  Button,
  ClipboardCopy,
  ClipboardCopyVariant,
  Content,
  DescriptionList,
  Stack,
  StackItem,
  ToggleGroup,
  ToggleGroupItem,
} from '@patternfly/react-core';
import { useCallback, useState } from 'react';
import { asSentence, exactBytes, moment } from '../shell/quantities';
import { useAnswer } from '../shell/useAnswer';
import { getDigest, type ImageFacts, type ImageKind, type NetworkAddresses, type NetworkBoot } from './api';
import { Copyable, Digest, Fact } from './Copyable';
import {
  atNetwork,
  describeType,
  downloadCommand,
  fileNameOf,
  isMade,
  sameOrigin,
  whyNoMinimal,
  whyNoNetworkBoot,
} from './facts';
import { ShortAddress } from './ShortAddress';

type Props = {
  facts: ImageFacts;
  /** The network of the user's hosts: one of the networks in the facts. */
  there: NetworkAddresses | undefined;
};

/** Reports whether `there` is the network of the facts. */
const isPreferred = ({ facts, there }: Props): boolean => !there || there.url === facts.urls?.[0]?.url;

/** The image as a file: full and minimal, each with size and digest. */
export const Download = ({ facts, there }: Props) => {
  const [kind, setKind] = useState<'full' | 'minimal'>(facts.type === 'minimal-iso' ? 'minimal' : 'full');
  const reason = whyNoMinimal(facts);
  const shown = kind === 'minimal' && !reason ? 'minimal' : 'full';
  const image: ImageKind = (shown === 'minimal' ? facts.minimal : facts.full) ?? facts;
  return (
    <Stack hasGutter>
      <StackItem>
        <ToggleGroup aria-label="Kind of image">
          {(['full', 'minimal'] as const).map((one) => (
            <ToggleGroupItem
              key={one}
              buttonId={`image-kind-${one}`}
              text={one === 'full' ? 'Full' : 'Minimal'}
              isSelected={shown === one}
              isDisabled={one === 'minimal' && reason !== ''}
              onChange={() => {
                setKind(one);
              }}
            />
          ))}
        </ToggleGroup>
        <p className="landfall-subtle pf-v6-u-mt-sm" data-testid="kind-hint">
          {reason
            ? reason
            : shown === 'full'
              ? 'The image contains everything needed to boot.'
              : 'Small, for slow links: hosts fetch the root file system from the appliance while booting.'}
        </p>
      </StackItem>
      <StackItem>
        <OneImage
          image={image}
          isOwnKind={shown === (facts.type === 'minimal-iso' ? 'minimal' : 'full')}
          name={fileNameOf(facts.file_name, shown)}
          url={there?.[shown] ?? image.url ?? ''}
          // A minimal image fetches the root file system from an address on its network, so each
          // network has its own image.
          isOwnOfNetwork={shown === 'minimal'}
          isDigestKnown={shown === 'full' || isPreferred({ facts, there })}
          modified={facts.modified}
        />
      </StackItem>
    </Stack>
  );
};

type OneImageProps = {
  image: ImageKind;
  /** Whether hosts of the infra-env boot this kind. */
  isOwnKind: boolean;
  name: string;
  url: string;
  isOwnOfNetwork: boolean;
  isDigestKnown: boolean;
  modified: string | undefined;
};

const OneImage = ({ image, isOwnKind, name, url, isOwnOfNetwork, isDigestKnown, modified }: OneImageProps) => {
  const sha256 = useDigest(image, isOwnKind);
  if (!isMade(image)) {
    return <p>{asSentence(image.reason ?? 'This image does not exist.')}</p>;
  }
  return (
    <>
      <DescriptionList isCompact isHorizontal aria-label="The image">
        <Fact term="Size">
          <span data-testid="image-size">{exactBytes(image.size_bytes ?? 0)}</span>
        </Fact>
        <Fact term="SHA-256">
          {isDigestKnown ? (
            <Digest sha256={sha256} testId="image-sha256" />
          ) : (
            <Copyable label="Address of the SHA-256">{`${url}.sha256`}</Copyable>
          )}
        </Fact>
        {modified && moment(modified) && <Fact term="Changed">{moment(modified)}</Fact>}
        <Fact term="Address">
          <Copyable label="Address of the image">{url}</Copyable>
        </Fact>
        <Fact term="Shell command">
          <Copyable label="Shell command">{downloadCommand(name, url, isDigestKnown ? sha256 : '')}</Copyable>
        </Fact>
      </DescriptionList>
      <Button
        component="a"
        variant="secondary"
        className="pf-v6-u-mt-md"
        href={isOwnOfNetwork ? url : sameOrigin(image.url, window.location.origin)}
        download={name}
        data-testid="image-download"
      >
        Download
      </Button>
    </>
  );
};

/**
 * The image's digest. The appliance computes the digest of the infra-env's own kind automatically,
 * and that of the other kind on request.
 */
const useDigest = ({ url, sha256 }: ImageKind, isOwn: boolean): string => {
  const known = sha256 ?? '';
  const load = useCallback(
    (signal: AbortSignal) => (url && !known && !isOwn ? getDigest(url, signal) : Promise.resolve(known)),
    [url, known, isOwn],
  );
  const { answer } = useAnswer(load, isOwn ? never : untilKnown);
  return known === '' ? (answer ?? '') : known;
};

const never = () => undefined;
const untilKnown = (digest: string | undefined) => (digest ? undefined : 3_000);

type ChangeableProps = Props & { infraEnvId: string; isSealed: boolean; onChange: () => void };

/** The image for BMCs: a short address without a query string. */
export const VirtualMedia = ({ infraEnvId, facts, isSealed, there, onChange }: ChangeableProps) => (
  <Stack hasGutter>
    <StackItem>
      <Content component="p">
        For the virtual CD of a server&apos;s management controller (BMC): the {describeType(facts.type) || 'image'} at
        a short address.{!isSealed && ' Anyone with this address can read the pull secret.'}
      </Content>
    </StackItem>
    <StackItem>
      <ShortAddress infraEnvId={infraEnvId} facts={facts} url={there?.short} onChange={onChange} />
    </StackItem>
  </Stack>
);

/** All addresses for PXE, iPXE, GRUB and UEFI HTTP boot. */
export const NetworkBootAddresses = ({ facts, there }: Props) => {
  const { network_boot: boot, urls } = facts;
  const isHere = isPreferred({ facts, there });
  if (!boot?.kernel_url) {
    return <p data-testid="no-network-boot">{whyNoNetworkBoot(facts)}</p>;
  }
  return (
    <DescriptionList isCompact isHorizontal aria-label="Network boot" data-testid="network-boot">
      {addresses(boot).map(([term, url]) => (
        <Fact key={term} term={term}>
          <Copyable label={term}>{atNetwork(url, urls?.[0], there)}</Copyable>
        </Fact>
      ))}
      {isHere && boot.kernel_arguments && (
        <Fact term="Kernel arguments">
          <Copyable label="Kernel arguments">{boot.kernel_arguments}</Copyable>
        </Fact>
      )}
      {isHere && boot.ipxe_script && (
        <Fact term="Text of the iPXE script">
          <ClipboardCopy
            isReadOnly
            isCode
            variant={ClipboardCopyVariant.expansion}
            hoverTip="Copy: iPXE script"
            clickTip="Copied"
            textAriaLabel="iPXE script"
            toggleAriaLabel="Show the iPXE script"
          >
            {boot.ipxe_script}
          </ClipboardCopy>
        </Fact>
      )}
    </DescriptionList>
  );
};

const addresses = (boot: NetworkBoot): [term: string, url: string][] =>
  (
    [
      ['iPXE script', boot.ipxe_url],
      ['UEFI HTTP boot', boot.http_boot_url],
      ['GRUB menu', boot.grub_url],
      ['Kernel', boot.kernel_url],
      ['Initrd', boot.initrd_url],
      ['Root file system', boot.rootfs_url],
    ] as [string, string | undefined][]
  ).filter((address): address is [string, string] => !!address[1]);

/** The image with the settings only. */
export const ConfigImage = ({ facts: { config_image_url: url, urls }, there }: Props) =>
  url ? (
    <Stack hasGutter>
      <StackItem>
        <Content component="p">
          A small ISO with the settings only, for hosts that boot the plain live ISO from a USB stick: attach both.
        </Content>
      </StackItem>
      <StackItem>
        <Copyable label="Address of the config image">{atNetwork(url, urls?.[0], there)}</Copyable>
      </StackItem>
      <StackItem>
        <Button
          component="a"
          variant="secondary"
          href={sameOrigin(url, window.location.origin)}
          download
          data-testid="config-image-download"
        >
          Download
        </Button>
      </StackItem>
    </Stack>
  ) : (
    <p>The config image does not exist.</p>
  );
