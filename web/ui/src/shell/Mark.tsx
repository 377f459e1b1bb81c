/** The product's logo: a mountain on the shore of a sea. */
export const Mark = () => (
  <svg viewBox="0 0 32 32" width="28" height="28" aria-hidden="true">
    <rect width="32" height="32" rx="7" fill="#004d99" />
    <path d="M16 5l8 13H8z" fill="#fff" />
    <path
      d="M5 22q2.75-3 5.5 0t5.5 0 5.5 0 5.5 0"
      fill="none"
      stroke="#fff"
      strokeWidth="2.6"
      strokeLinecap="round"
    />
  </svg>
);
