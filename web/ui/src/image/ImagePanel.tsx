import {
  Alert,
  Button,
  Card,
  CardBody,
  CardExpandableContent,
  CardHeader,
  CardTitle,
  Divider,
  Flex,
  FlexItem,
  FormSelect,
  FormSelectOption,
  Spinner,
  Tab,
  Tabs,
  TabTitleText,
  Title,
} from '@patternfly/react-core';
import { useCallback, useState, type ReactNode } from 'react';
import { Link } from 'react-router-dom-v5-compat';
import { asSentence } from '../shell/quantities';
import { useAnswer } from '../shell/useAnswer';
import { useAccess } from '../access/AccessProvider';
import { getSealedImage, listInfraEnvs, type ImageFacts, type InfraEnv } from './api';
import { ConfigImage, Download, NetworkBootAddresses, VirtualMedia } from './Addresses';
import { ImageReads } from './ImageReads';
import { SealedImage } from './SealedImage';
import { useImageFacts } from './useImageFacts';

const untilThere = 2_000;
const wait = (infraEnvs: InfraEnv[] | undefined) => (infraEnvs?.length ? undefined : untilThere);

type Props = { clusterId: string; hasHosts: boolean };

/** The image of a cluster's hosts, all methods to boot it, and the machines that read it. */
export const ImagePanel = ({ clusterId, hasHosts }: Props) => {
  const load = useCallback((signal: AbortSignal) => listInfraEnvs(clusterId, signal), [clusterId]);
  const { answer } = useAnswer(load, wait);
  const [chosen, setChosen] = useState<string>();
  const infraEnv = answer?.find(({ id }) => id === chosen) ?? answer?.[0];
  if (!answer || !infraEnv) {
    return null; // the wizard is creating it
  }
  return (
    <>
      {answer.length > 1 && (
        <Choice
          label="Hosts of"
          id="image-infra-env"
          value={infraEnv.id}
          options={answer.map(({ id, name, cpu_architecture: architecture }) => [
            id,
            [name, architecture].filter(Boolean).join(', '),
          ])}
          onChoose={setChosen}
        />
      )}
      <InfraEnvImage key={infraEnv.id} infraEnvId={infraEnv.id} startsOpen={!hasHosts} />
    </>
  );
};

const whileOpen = () => 10_000;

const InfraEnvImage = ({ infraEnvId, startsOpen }: { infraEnvId: string; startsOpen: boolean }) => {
  const [isOpen, setOpen] = useState(startsOpen);
  const { open: hasNoAccounts } = useAccess();
  const load = useCallback((signal: AbortSignal) => getSealedImage(infraEnvId, signal), [infraEnvId]);
  const seal = useAnswer(load, whileOpen);
  return (
    <Card isCompact isExpanded={isOpen} data-testid="image-panel">
      <CardHeader
        onExpand={() => {
          setOpen(!isOpen);
        }}
        toggleButtonProps={{
          id: 'image-panel-toggle',
          'aria-label': 'Addresses of the discovery image',
          'aria-expanded': isOpen,
        }}
      >
        <CardTitle component="h3">Discovery image</CardTitle>
      </CardHeader>
      <CardExpandableContent>
        <CardBody>
          {isOpen && <Addresses infraEnvId={infraEnvId} isSealed={seal.answer?.sealed ?? false} />}
        </CardBody>
      </CardExpandableContent>
      <CardBody>
        <Link to={`/networks?infra_env=${infraEnvId}`}>Static networks of the hosts</Link>
      </CardBody>
      {isOpen && <Divider />}
      {/* Without authentication of machines, images cannot be sealed. */}
      {isOpen && !hasNoAccounts && (
        <>
          <CardBody>
            <Title headingLevel="h4" size="md" className="pf-v6-u-mb-sm">
              Sealed image
            </Title>
            <SealedImage infraEnvId={infraEnvId} state={seal} />
          </CardBody>
          <Divider />
        </>
      )}
      <CardBody>
        <Title headingLevel="h4" size="md" className="pf-v6-u-mb-sm">
          Machines that read the image
        </Title>
        <ImageReads infraEnvId={infraEnvId} />
      </CardBody>
    </Card>
  );
};

const Addresses = ({ infraEnvId, isSealed }: { infraEnvId: string; isSealed: boolean }) => {
  const { answer: facts, error, refetch } = useImageFacts(infraEnvId);
  if (!facts) {
    return error ? <NoImage error={error} onRetry={refetch} /> : <Spinner size="lg" aria-label="Reading the image" />;
  }
  if (!facts.url) {
    return <p data-testid="no-image-urls">{asSentence(facts.full?.reason ?? '')}</p>; // a viewer
  }
  return (
    <>
      {error && <NoImage error={error} onRetry={refetch} />}
      <BootMethods infraEnvId={infraEnvId} facts={facts} isSealed={isSealed} onChange={refetch} />
    </>
  );
};

const NoImage = ({ error, onRetry }: { error: Error; onRetry: () => void }) => (
  <Alert
    isInline
    variant="warning"
    title={error.message}
    data-testid="image-error"
    actionLinks={
      <>
        <Button variant="link" isInline onClick={onRetry}>
          Try again
        </Button>
        <Link to="/os-images">OS images</Link>
      </>
    }
  />
);

type BootMethodsProps = { infraEnvId: string; facts: ImageFacts; isSealed: boolean; onChange: () => void };

const BootMethods = ({ infraEnvId, facts, isSealed, onChange }: BootMethodsProps) => {
  const [method, setMethod] = useState<string | number>('download');
  const [network, setNetwork] = useState<string>();
  const networks = facts.urls ?? [];
  const there = networks.find(({ url }) => url === network) ?? networks[0];
  const tab = (key: string, title: string, content: ReactNode) => (
    <Tab eventKey={key} title={<TabTitleText>{title}</TabTitleText>} data-testid={`boot-method-${key}`}>
      <div className="pf-v6-u-pt-md">{content}</div>
    </Tab>
  );
  return (
    <>
      {networks.length > 1 && there && (
        <Choice
          label="Address of the appliance for hosts"
          id="image-network"
          value={there.url}
          options={networks.map(({ url }) => [url, url])}
          onChoose={setNetwork}
        />
      )}
      <Tabs
        activeKey={method}
        onSelect={(_, key) => {
          setMethod(key);
        }}
        aria-label="Boot methods"
        mountOnEnter
        unmountOnExit
      >
        {tab('download', 'Download', <Download facts={facts} there={there} />)}
        {tab(
          'virtual-media',
          'Virtual media',
          <VirtualMedia infraEnvId={infraEnvId} facts={facts} isSealed={isSealed} there={there} onChange={onChange} />,
        )}
        {tab('network-boot', 'Network boot', <NetworkBootAddresses facts={facts} there={there} />)}
        {tab('config-image', 'Config image', <ConfigImage facts={facts} there={there} />)}
      </Tabs>
    </>
  );
};

type ChoiceProps = {
  label: string;
  id: string;
  value: string;
  options: [value: string, label: string][];
  onChoose: (value: string) => void;
};

const Choice = ({ label, id, value, options, onChoose }: ChoiceProps) => (
  <Flex className="pf-v6-u-mb-md" alignItems={{ default: 'alignItemsCenter' }}>
    <FlexItem>
      <label htmlFor={id}>{label}</label>
    </FlexItem>
    <FlexItem>
      <FormSelect
        id={id}
        value={value}
        onChange={(_, chosen) => {
          onChoose(chosen);
        }}
      >
        {options.map(([one, text]) => (
          <FormSelectOption key={one} value={one} label={text} />
        ))}
      </FormSelect>
    </FlexItem>
  </Flex>
);
