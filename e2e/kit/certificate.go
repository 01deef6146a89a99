package kit

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// WriteCertificate writes a self-signed certificate for a host, or an IP address, and its
// key into a folder. It is valid from an hour ago until expiry.
func WriteCertificate(
	t testing.TB, dir, host string, expiry time.Time,
) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	NoError(t, err)
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	NoError(t, err)
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: "test " + host},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              expiry,
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	NoError(t, err)
	keyBytes, err := x509.MarshalPKCS8PrivateKey(key)
	NoError(t, err)
	NoError(t, os.MkdirAll(dir, 0o700))
	write := func(name, blockType string, content []byte) string {
		path := filepath.Join(dir, name)
		text := pem.EncodeToMemory(&pem.Block{Type: blockType, Bytes: content})
		NoError(t, os.WriteFile(path, text, 0o600))
		return path
	}
	return write("cert.pem", "CERTIFICATE", cert), write("key.pem", "PRIVATE KEY", keyBytes)
}
