#pragma once

// The floor: the messages of a Transaction as bytes, made beforehand and sent in the same order,
// many in a datagram; those of nf_tables as few transactions. What remains is the kernel's own time
// and the system calls. One thread.

#include <cstddef>
#include <memory>
#include <vector>

#include "netlink/nl_codec.h"
#include "proxier/plan/transaction.h"

namespace ipvsproxier::bench {

class Prebuilt {
 public:
  // Elements, virtual and real servers, and addresses of `transaction`; not its sets, rules
  // and links, which must be there. Throws std::runtime_error where the kernel lacks something.
  explicit Prebuilt(const plan::Transaction& transaction);
  ~Prebuilt();

  // Throws std::runtime_error if the kernel refused anything.
  void send();

  std::size_t messages() const { return messages_; }
  std::size_t datagrams() const { return datagrams_.size(); }

 private:
  struct Datagram {
    int socket = 0;  // index into sockets_
    netlink::Bytes bytes;
    std::uint32_t last_sequence = 0;
  };

  void put(int socket, netlink::Bytes message);
  void append(netlink::Bytes message);
  void close_datagram();
  void put_transaction(const std::vector<netlink::Bytes>& messages);
  void put_nft(const std::vector<plan::SetChange>& changes);
  void put(const std::vector<ipset::SetSpec>& specs);
  void put(const std::vector<ipset::TableRules>& tables);
  void put(const std::vector<plan::SetChange>& changes);
  void put(const std::vector<netlink::IpvsOp>& ops);
  void put(const std::vector<plan::BindingOp>& ops);

  std::vector<int> sockets_;
  std::uint16_t ipvs_family_ = 0;
  std::vector<Datagram> datagrams_;
  std::uint32_t sequence_ = 0;
  std::size_t messages_ = 0;
  std::size_t last_message_ = 0;  // its offset in the datagram that is open
  bool open_ = false;
};

}  // namespace ipvsproxier::bench
