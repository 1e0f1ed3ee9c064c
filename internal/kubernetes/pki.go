//go:build linux

package main

import (
	"crypto"
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
	"time"
)

// An authority signs the certificates of a cluster.
type authority struct {
	dir  string // where they are kept
	cert *x509.Certificate
	key  crypto.Signer
}

// newAuthority makes one with a certificate of its own, ca.crt, and a pair of keys for
// the tokens of service accounts.
func newAuthority(dir string) (*authority, error) {
	a := &authority{dir: dir, cert: template("cofferdam", "")}
	a.cert.IsCA, a.cert.BasicConstraintsValid = true, true
	a.cert.KeyUsage |= x509.KeyUsageCertSign
	var err error
	if a.key, err = a.sign("ca", a.cert); err != nil {
		return nil, err
	}
	tokens, err := a.sign("tokens", template("tokens", ""))
	if err != nil {
		return nil, err
	}
	public, err := x509.MarshalPKIXPublicKey(tokens.Public())
	if err != nil {
		return nil, err
	}
	return a, a.write("tokens.pub", "PUBLIC KEY", public)
}

// issue makes the certificate and the key of a user or a server, who is found at these
// addresses and names.
func (a *authority) issue(file, user, group string, addresses, names []string) error {
	cert := template(user, group)
	for _, address := range addresses {
		cert.IPAddresses = append(cert.IPAddresses, net.ParseIP(address))
	}
	cert.DNSNames = names
	_, err := a.sign(file, cert)
	return err
}

// usages are what a certificate may be used for. A kubelet's is used for both.
var usages = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}

func template(user, group string) *x509.Certificate {
	serial := make([]byte, 16)
	_, _ = rand.Read(serial) // it never fails
	cert := &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(serial),
		Subject:      pkix.Name{CommonName: user},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(7 * 24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  usages,
	}
	if group != "" {
		cert.Subject.Organization = []string{group}
	}
	return cert
}

func (a *authority) sign(file string, cert *x509.Certificate) (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	signer := a.key
	if signer == nil {
		signer = key
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, a.cert, key.Public(), signer)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	if err := a.write(file+".crt", "CERTIFICATE", der); err != nil {
		return nil, err
	}
	return key, a.write(file+".key", "EC PRIVATE KEY", private)
}

func (a *authority) write(file, kind string, der []byte) error {
	return os.WriteFile(filepath.Join(a.dir, file),
		pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
