package mirror

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// maxSignature limits one OpenPGP signature in bytes. Real ones have about 1 KiB; the
// cluster-version operator reads at most 50 KiB (openshift/library-go, pkg/verify/store/sigstore).
const maxSignature = 50 << 10

// signatureFile matches the path of a file with one OpenPGP signature of a release:
//
//	sha256=<hex>/signature-<n>   signature stores (containers/image, docs/signature-protocols.md)
//	<tag>-sha256-<hex>           working-dir/signatures of oc-mirror version 2
var signatureFile = regexp.MustCompile(
	`(?:(?:^|[/@])sha256=([0-9a-f]{64})/signature-[0-9]+|(?:^|[/-])sha256-([0-9a-f]{64}))$`)

// signatureDigest returns the digest of the release to which a file's signature belongs according
// to the file's path, or "" if the path is not that of a signature.
func signatureDigest(file string) string {
	match := signatureFile.FindStringSubmatch(file)
	if match == nil {
		return ""
	}
	return "sha256:" + match[1] + match[2]
}

// IsSignature reports whether a file is an OpenPGP signature of a release by its name and its
// content.
func IsSignature(name string, data []byte) bool {
	return signatureDigest(name) != "" && len(data) <= maxSignature && isOpenPGP(data)
}

// isOpenPGP reports whether data begins with a packet of a signed message: a signature, a one-pass
// signature or compressed data (RFC 9580, section 4.2).
func isOpenPGP(data []byte) bool {
	if len(data) == 0 || data[0]&0x80 == 0 {
		return false
	}
	kind := data[0] >> 2 & 0x0f
	if data[0]&0x40 != 0 {
		kind = data[0] & 0x3f
	}
	return kind == 2 || kind == 4 || kind == 8
}

// addSignatures adds files with one signature each. The signatures of a release become a ConfigMap
// as oc writes it, except those that another object has already.
func (s *mirrorSets) addSignatures(documents []Document) error {
	known := &Rules{objects: s.objects}
	added := map[string][][]byte{}
	var digests []string // in the order of the documents
	var sources = map[string]string{}
	for _, doc := range documents {
		digest := signatureDigest(doc.Name)
		switch {
		case digest == "":
			return &InputError{doc.Name, "", "is not named after its release; use sha256=<digest>/signature-1"}
		case len(doc.Data) > maxSignature || !isOpenPGP(doc.Data):
			return &InputError{doc.Name, "", "is not an OpenPGP signature"}
		}
		same := func(other []byte) bool { return bytes.Equal(other, doc.Data) }
		if slices.ContainsFunc(known.SignaturesOf(digest), same) || slices.ContainsFunc(added[digest], same) {
			continue
		}
		if added[digest] == nil {
			digests = append(digests, digest)
			sources[digest] = doc.Name
		}
		added[digest] = append(added[digest], doc.Data)
	}
	for _, digest := range digests {
		key := strings.Replace(digest, ":", "-", 1)
		text := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: landfall-%s\n  namespace: %s\n"+
			"  labels:\n    %s: \"\"\nbinaryData:\n", key, signatureNamespace, signatureLabel)
		for i, signature := range added[digest] {
			text += fmt.Sprintf("  %s-%d: %s\n", key, i+1, base64.StdEncoding.EncodeToString(signature))
		}
		if err := s.add(Document{sources[digest], []byte(text)}); err != nil {
			return err
		}
	}
	return nil
}
