import { encode } from 'uqr';

/** Modules around the code that scanners need (ISO/IEC 18004). */
const border = 4;

/** A QR code with its text below. It is black on white in both themes, as scanners expect. */
const QRCode = ({ url }: { url: string }) => {
  const { data, size } = encode(url, { ecc: 'M', border });
  const path = data
    .flatMap((row, y) => row.map((isBlack, x) => (isBlack ? `M${String(x)} ${String(y)}h1v1h-1z` : '')))
    .join('');
  return (
    <div data-testid="qr-code">
      <svg
        role="img"
        aria-label={`QR code of ${url}`}
        viewBox={`0 0 ${String(size)} ${String(size)}`}
        shapeRendering="crispEdges"
        className="landfall-qr"
      >
        <rect width={size} height={size} fill="#fff" />
        <path d={path} fill="#000" />
      </svg>
      <div className="landfall-address">{url}</div>
    </div>
  );
};

export default QRCode;
