import i18n from 'i18next';
import { initReactI18next } from 'react-i18next';
import translation from '@openshift-assisted/locales/en/translation.json';

const dates = new Intl.DateTimeFormat('default', { dateStyle: 'medium', timeStyle: 'short' });

const format = (value: unknown, kind?: string, language?: string): string => {
  if (value instanceof Date) {
    return dates.format(value);
  }
  if (kind === 'number' && (typeof value === 'number' || typeof value === 'bigint')) {
    return new Intl.NumberFormat(language).format(value);
  }
  return String(value);
};

// The library's keys are sentences after the prefix "ai:". The usual separators must not split
// them.
void i18n.use(initReactI18next).init({
  lng: 'en',
  fallbackLng: 'en',
  supportedLngs: ['en'],
  resources: { en: { translation } },
  nsSeparator: '~',
  keySeparator: false,
  interpolation: { escapeValue: false, format },
  react: { useSuspense: true, transSupportBasicHtmlNodes: true },
});

export default i18n;
