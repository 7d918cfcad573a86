#pragma once

// Certificates of their own, with their keys (Ed25519), that tests take for an authority's or a
// client's. Made for this and used nowhere else; the password is "x".

#include <string>

namespace ipvsproxier::test {

inline const std::string kCertificateOne = R"(-----BEGIN CERTIFICATE-----
MIIBMjCB5aADAgECAhR9quZRutkhd6R9J5WLVY0CEebUNDAFBgMrZXAwDjEMMAoG
A1UEAwwDb25lMCAXDTI2MTEyMTE3MjE1OVoYDzIxMjYxMDI4MTcyMTU5WjAOMQww
CgYDVQQDDANvbmUwKjAFBgMrZXADIQCPDoxW4hT0mJZOBB7bCCws2FbMBPYcyIMJ
RhWP6vtYP6NTMFEwHQYDVR0OBBYEFPxlrg8BomBRTG5ddAZGL3rFrd8mMB8GA1Ud
IwQYMBaAFPxlrg8BomBRTG5ddAZGL3rFrd8mMA8GA1UdEwEB/wQFMAMBAf8wBQYD
K2VwA0EA/5HgALChZtKByqC2OjjpzjpBT/L37VqfQSGzYq4if7rUH3R7USAIPRjw
dXJfl3/ll+Z992sFHQMkKmUc1lI8Bg==
-----END CERTIFICATE-----
)";

inline const std::string kKeyOne = R"(-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIO564d6l+R7wT63UjLH2WPi1RYUuCMZe0jhIDq4PUHnF
-----END PRIVATE KEY-----
)";

inline const std::string kKeyOneWithPassword = R"(-----BEGIN ENCRYPTED PRIVATE KEY-----
MIGbMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAh2eKK/4N5wlgICCAAw
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEAQIEELYaEYnluAcFvunfGqHzq+wEQETW
Go16/K540vUjIJfDWPuhj/ecVgdWRLDDLENEqvcCPXVqLmFQX6EJ+kvh3yNpqbV5
giTCaJDVrP4wFa7p43o=
-----END ENCRYPTED PRIVATE KEY-----
)";

inline const std::string kCertificateTwo = R"(-----BEGIN CERTIFICATE-----
MIIBMjCB5aADAgECAhRmwv00P9T4Gtb7fcFetL1x87XdQTAFBgMrZXAwDjEMMAoG
A1UEAwwDdHdvMCAXDTI2MTEyMTE3MjE1OVoYDzIxMjYxMDI4MTcyMTU5WjAOMQww
CgYDVQQDDAN0d28wKjAFBgMrZXADIQClGqs6LkRqAlIGDNySt85+LkTzhv+ruSFX
Rx7DmBotUqNTMFEwHQYDVR0OBBYEFH66xylVFrUANv0Xi2iKfTWgd8DAMB8GA1Ud
IwQYMBaAFH66xylVFrUANv0Xi2iKfTWgd8DAMA8GA1UdEwEB/wQFMAMBAf8wBQYD
K2VwA0EAF3QmgQXouOGSSUDbkozACUOpEV6FPTzZBqZlp/5+EhcQ7UeuS0yvVZRG
nb3ruzfE7dRp37J3ztS/HTHfi2sLDg==
-----END CERTIFICATE-----
)";

inline const std::string kKeyTwo = R"(-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIARax3NQvjSqnPfJpuU/2cpK/LXUMxRYay2n0CbqiO6d
-----END PRIVATE KEY-----
)";

}  // namespace ipvsproxier::test
