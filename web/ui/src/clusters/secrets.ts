/** The pull secret in an install-config. The appliance writes it as JSON. */
export const pullSecretIn = (installConfig: string): string => {
  const { pullSecret } = JSON.parse(installConfig) as { pullSecret?: string };
  if (!pullSecret) {
    throw new Error('The cluster has no pull secret.');
  }
  return pullSecret;
};
