import { authorityURL } from './appliance';

/**
 * The fingerprint of the appliance's certificate authority, in lines of 16 bytes, and a link to its
 * certificate.
 */
export const Authority = ({ fingerprint }: { fingerprint: string }) => (
  <div className="landfall-authority" data-testid="authority">
    SHA-256 of the appliance&apos;s certificate authority{' '}
    {fingerprint.match(/.{1,48}/g)?.map((line) => (
      <code key={line}>{line}</code>
    ))}
    <a href={authorityURL} download="ca.crt">
      Download ca.crt
    </a>
  </div>
);
