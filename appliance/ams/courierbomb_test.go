package ams

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/sitekey"
)

// A courier file of 2 MB took 2.8 GB, because it was read whole before its signature was verified.
func TestCourier_unsignedFileTakesLittleMemory(t *testing.T) {
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	_, err := fmt.Fprintf(zip, "{\"format\":%q,\"version\":1,\"kind\":\"export\"}\n", courierFormat)
	require.NoError(t, err)
	line := []byte(`{"cluster_id":"` + strings.Repeat("0", 1000) + "\"}\n")
	for range 200_000 {
		_, err := zip.Write(line)
		require.NoError(t, err)
	}
	require.NoError(t, zip.Close())
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = ReadCourier(&packed, Export, nil)
	require.ErrorIs(t, err, ErrCourier)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<20))
}

// The signature of an unknown key gives no right to the memory of the clusters.
func TestCourier_untrustedKeyIsRejectedFirst(t *testing.T) {
	key, err := sitekey.LoadOrCreate(t.TempDir())
	require.NoError(t, err)
	var packed bytes.Buffer
	require.NoError(t, WriteCourier(&packed, key, CourierFile{Header: CourierHeader{Kind: Receipts},
		Entries: []CourierEntry{{ClusterID: "a"}}}))
	untrusted := errors.New("not trusted")
	file, err := ReadCourier(&packed, Receipts, func(h CourierHeader) error {
		require.Equal(t, key.Public().Fingerprint(), h.Key.Fingerprint())
		return untrusted
	})
	require.ErrorIs(t, err, untrusted)
	require.Nil(t, file)
}

func TestCourier_tooLargeFiles(t *testing.T) {
	_, err := ReadCourier(bytes.NewReader(make([]byte, MaxCourierBytes+1)), Export, nil)
	require.ErrorContains(t, err, "it has more than 32 MiB")
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	_, err = zip.Write(bytes.Repeat([]byte("x"), maxCourierLine+1))
	require.NoError(t, err)
	require.NoError(t, zip.Close())
	_, err = ReadCourier(&packed, Export, nil)
	require.ErrorContains(t, err, "it has a line of more than 4 MiB")
}
