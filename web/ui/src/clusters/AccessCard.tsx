import { Alert, Card, CardBody, CardTitle, DescriptionList } from '@patternfly/react-core';
import { useMay } from '../access/AccessProvider';
import { Copyable, Fact } from '../image/Copyable';
import { kubeconfigUrl, readInstallConfig, readKubeconfig, readPassword } from './api';
import { pullSecretIn } from './secrets';
import { Secret } from './Secret';

type Props = { cluster: { id: string; name: string; domain: string } };

/** How to use an installed cluster: its console and its API, and its secrets on request. */
export const AccessCard = ({ cluster: { id, name, domain } }: Props) => {
  const mayRead = useMay('admin');
  const consoleUrl = `https://console-openshift-console.apps.${name}.${domain}`;
  return (
    <Card component="section" aria-labelledby="cluster-access">
      <CardTitle>
        <h2 id="cluster-access" className="landfall-card-title">
          Access to the cluster
        </h2>
      </CardTitle>
      <CardBody>
        {!mayRead && (
          <Alert
            isInline
            variant="info"
            title="Only administrators can read the kubeconfig and the password of this cluster."
            data-testid="no-credentials"
          />
        )}
        <DescriptionList isHorizontal>
          <Fact term="Console">
            <Copyable label="Address of the console">{consoleUrl}</Copyable>
          </Fact>
          <Fact term="API">
            <Copyable label="Address of the API">{`https://api.${name}.${domain}:6443`}</Copyable>
          </Fact>
          {mayRead && (
            <>
              <Fact term="User">kubeadmin</Fact>
              <Secret term="Password" noun="the password" read={() => readPassword(id)} />
              <Secret
                term="Kubeconfig"
                noun="the kubeconfig"
                read={() => readKubeconfig(id)}
                file={kubeconfigUrl(id)}
                isLong
              />
              <Secret
                term="Pull secret"
                noun="the pull secret"
                read={async () => pullSecretIn(await readInstallConfig(id))}
                isLong
              />
            </>
          )}
        </DescriptionList>
      </CardBody>
    </Card>
  );
};
