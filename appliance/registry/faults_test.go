package registry

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Directories of tests, from here.
const (
	served   = "../../web/registry"
	staged   = "staging"
	given    = "handover"
	services = "../siteservice"
	names    = "../siteservice/nameserver"
	dhcp     = "../siteservice/dhcpserver"
	whole    = ".."
	clients  = "../../web/clients/imagetest"
)

// faults are the faults of a site that is served from media, each with the tests that provoke it,
// as directory and test.
var faults = []struct {
	number int
	fault  string
	tests  [][2]string
}{
	{1, "stick removed while a node pulls", [][2]string{{served, "TestFault01_mediumRemovedAndBack"},
		{served, "TestFault01_connectionBreaks"}, {clients, "TestPull_continuesWhenTheMediumIsBack"}}},
	{2, "back at another place", [][2]string{{served, "TestFault02_recognizedByContent"}}},
	{3, "back with changed files", [][2]string{{served, "TestFault03_changedFiles"}}},
	{4, "an archive of several is missing", [][2]string{{served, "TestFault04_archiveOfSeveralMissing"}}},
	{5, "differential without its predecessors", [][2]string{{served, "TestFault05_differentialWithoutPredecessor"}}},
	{6, "truncated archive", [][2]string{{served, "TestFault06_truncatedArchive"}}},
	{7, "flipped bits in a blob", [][2]string{{served, "TestFault07_flippedBits"}}},
	{8, "flipped bits in a header", [][2]string{{served, "TestFault08_flippedBitsInHeader"}}},
	{9, "compressed archive", [][2]string{{served, "TestFault09_compressedArchive"},
		{served, "TestFault09_otherCompression"}}},
	{10, "docker-archive", [][2]string{{served, "TestFault10_dockerArchive"}}},
	{11, "two archives, one tag", [][2]string{{served, "TestFault11_twoArchivesOneTag"}}},
	{12, "two hosts with one path", [][2]string{{served, "TestFault12_twoHostsOnePath"}}},
	{13, "filtered catalog", [][2]string{{served, "TestFault13_filteredCatalog"}}},
	{14, "sparse list", [][2]string{{served, "TestFault14_sparseList"}, {"supply", "TestFault14_oneEventOfTheHost"}}},
	{15, "no signature for the release", [][2]string{{served, "TestFault15_noSignature"},
		{"../mirror/prover", "TestFault15_missingSignatures"}}},
	{16, "a layer is nowhere", [][2]string{{served, "TestFault16_layerIsNowhere"},
		{served, "TestFault16_layerOnMissingMedium"}}},
	{17, "disk full while staging", [][2]string{{served, "TestFault17_diskFullWhileStaging"}}},
	{18, "disk full during an upload", [][2]string{{served, "TestFault18_noRoomDuringUpload"}}},
	{19, "disk of the store full", [][2]string{{"../../store", "TestFullDisk_updatesFailUntilThereIsSpace"},
		{whole, "TestFault19_pullsWhileTheDiskIsFull"}}},
	{20, "power lost", [][2]string{{served, "TestFault20_uploadContinuesAfterRestart"},
		{staged, "TestFault20_killedWhileStaging"}}},
	{21, "many nodes, one cold blob", [][2]string{{served, "TestFault21_manyClientsOneColdBlob"}}},
	{22, "many cold blobs", [][2]string{{served, "TestFault22_tooManyColdBlobs"}}},
	{23, "medium hangs", [][2]string{{served, "TestFault23_mediumHangs"}}},
	{24, "client leaves", [][2]string{{staged, "TestFault24_clientLeaves"}}},
	{25, "range past the end", [][2]string{{served, "TestFault25_rangePastTheEnd"}}},
	{26, "known digest elsewhere", [][2]string{{served, "TestFault26_knownDigestElsewhere"}}},
	{27, "pushed without blobs", [][2]string{{served, "TestFault27_manifestWithoutBlobs"},
		{served, "TestFault27_wrongDigestStoresNothing"}}},
	{28, "part out of order", [][2]string{{served, "TestFault28_partOutOfOrder"}}},
	{29, "deletion on a medium", [][2]string{{served, "TestFault29_deletionOnMedium"}}},
	{30, "collection during an upload", [][2]string{{served, "TestFault30_collectionKeepsRunningPushes"},
		{served, "TestFault30_collectionDuringManifest"}}},
	{31, "wrong password", [][2]string{{served, "TestFault31_wrongPassword"}}},
	{32, "pull secret without an entry", [][2]string{{whole, "TestFault32_pullSecretWithoutEntry"}}},
	{33, "certificate expires", [][2]string{{"../authority", "TestFault33_certificateRenewedInTime"}}},
	{34, "address of the laptop changes", [][2]string{{"absence", "TestFault34_addressChanges"},
		{"../authority", "TestFault34_addressOfConnection"}, {services, "TestFault34_addressChanges"}}},
	{35, "laptop sleeps", [][2]string{{"../inhibitor", "TestFault35_inhibitorIsHeld"},
		{"../inhibitor", "TestFault35_noInhibitor"}, {"../inhibitor", "TestFault35_wakes"},
		{served, "TestFault01_connectionBreaks"}}},
	{36, "clock jumps", [][2]string{{dhcp, "TestFault36_clockJumps"}, {"../authority", "TestFault36_clockCorrected"}}},
	{37, "port taken, or no right", [][2]string{{services, "TestFault37_portTaken"},
		{"../siteservice/clienttest", "TestFault37_othersStart"}}},
	{38, "another DHCP server", [][2]string{{dhcp, "TestFault38_foreignServer"},
		{services, "TestFault38_anotherServerAnswers"}}},
	{39, "foreign proxyDHCP", [][2]string{{dhcp, "TestFault39_foreignProxy"}}},
	{40, "address in use", [][2]string{{dhcp, "TestFault40_addressInUse"}}},
	{41, "unknown MAC", [][2]string{{dhcp, "TestFault41_unknownMAC"}}},
	{42, "restart of the DHCP server", [][2]string{{dhcp, "TestFault42_restart"}}},
	{43, "relay agent", [][2]string{{dhcp, "TestFault43_relayAgent"}}},
	{44, "BIOS without a loader", [][2]string{{dhcp, "TestFault44_biosWithoutLoader"}}},
	{45, "Secure Boot", [][2]string{{dhcp, "TestFault45_secureBoot"}}},
	{46, "installed host boots from the network", [][2]string{{dhcp, "TestFault46_installedHost"}}},
	{47, "TFTP through lossy networks", [][2]string{{"../siteservice/tftpserver", "TestFault47_lossyNetwork"}}},
	{48, "one DNS name in two clusters, silent upstream", [][2]string{{services, "TestFault48_secondClusterIsRefused"},
		{services, "TestFault48_oneNameInTwoClusters"},
		{"../notice/sources", "TestFault48_nameOfTwoClusters"},
		{names, "TestFault48_oneNameInTwoClusters"}, {names, "TestFault48_upstreamUnreachable"}}},
	{49, "the site's DNS has other records", [][2]string{{names, "TestFault49_otherRecords"}}},
	{50, "own clock unsynchronised", [][2]string{{"../siteservice/timeserver", "TestFault50_ownClockUnsynchronised"}}},
	{51, "clocks differ, or ours is before the media", [][2]string{{services, "TestFault51_clockBeforeMedium"},
		{services, "TestFault51_clockBeforeLiveISO"}, {"../engine/validation", "TestHost_faults"}}},
	{52, "hand-over broken off", [][2]string{{given, "TestFault52_brokenOff"}}},
	{53, "new registry refuses", [][2]string{{given, "TestFault53_refusals"}}},
	{54, "shut down while clusters depend on it", [][2]string{{"absence", "TestFault54_awayWhileClustersDepend"},
		{"../command", "TestFault54_asksOnATerminalOnly"}}},
	{55, "same media at another site", [][2]string{{served, "TestFault55_indexIsUsedAgain"}}},
}

// The table has all faults, and names existing tests. Each fault has a test of its number.
func TestFaults_haveTests(t *testing.T) {
	require.Len(t, faults, 55)
	sources := map[string]string{}
	for i, f := range faults {
		require.Equal(t, i+1, f.number)
		require.NotEmpty(t, f.tests, "%d %s", f.number, f.fault)
		numbered := false
		for _, test := range f.tests {
			dir, name := test[0], test[1]
			if sources[dir] == "" {
				files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
				require.NoError(t, err)
				var all strings.Builder
				for _, file := range files {
					text, err := os.ReadFile(file)
					require.NoError(t, err)
					all.Write(text)
				}
				sources[dir] = all.String()
			}
			require.True(t, strings.Contains(sources[dir], "\nfunc "+name+"(t *testing.T) {"), "%d %s: %s", f.number,
				f.fault, name)
			numbered = numbered || strings.HasPrefix(name, fmt.Sprintf("TestFault%02d_", f.number))
		}
		require.True(t, numbered, "%d %s has no test of its number", f.number, f.fault)
	}
}
